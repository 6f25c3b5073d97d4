//! Which counters move when something happens: those, and no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use iam_adapters::clock::SystemClock;
use serde_json::json;

use super::{EXCHANGE, ask, figures, with};
use crate::app::TestApp;
use crate::scripted_upstream::keycloak::{INTROSPECTION, LOGOUT as END, TOKEN as GRANT, inactive};
use crate::scripted_upstream::{Answer, ScriptedUpstream};
use crate::wire::{ALICE, Connection, LOGIN, LOGOUT, TOKEN};

/// Lets something happen, and gives the counters that moved, with by how much.
fn moved(gateway: &TestApp, happens: impl FnOnce()) -> BTreeMap<String, u64> {
    let before = figures(gateway);
    happens();
    let after = figures(gateway);
    let counters = after
        .names()
        .into_iter()
        .filter(|name| name.contains("_total"));
    counters
        .filter(|name| !name.contains("management") && !name.contains("probe"))
        .map(|name| (name, after.count(name) - before.count(name)))
        .filter(|(_, by)| *by != 0)
        .map(|(name, by)| (name.replace("auth_gateway_", ""), by))
        .collect()
}

fn one_of(series: &[&str]) -> BTreeMap<String, u64> {
    series.iter().map(|name| ((*name).to_owned(), 1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_outcome_has_a_counter_that_moves() {
    let keycloak = ScriptedUpstream::keycloak().await;
    keycloak.once(INTROSPECTION, inactive());
    let gateway = TestApp::spawn(
        Arc::new(SystemClock::default()),
        &[
            ("iam.keycloak.url", &keycloak.url()),
            ("iam.keycloak.realm", "shop"),
            ("iam.keycloak.client_id", "auth-gateway"),
            ("iam.keycloak.client_secret", "a-secret-of-the-client"),
            ("iam.keycloak.permissions_client", "shop-api"),
            ("upstream.probe_interval", "1h"),
        ],
    );
    keycloak.received(INTROSPECTION, 1).await;
    let alice = serde_json::from_str(ALICE).expect("JSON");
    let login = || ask(&gateway, LOGIN, &alice);
    let (_, session) = login();
    let token = |more: &[(&str, &str)]| ask(&gateway, TOKEN, &with(&session, more));
    let happened = [
        (
            moved(&gateway, || assert_eq!(login().0, 200)),
            &[
                "requests_total{outcome=\"ok\",route=\"login\"}",
                "iam_calls_total{operation=\"login\",outcome=\"ok\"}",
            ][..],
        ),
        (
            moved(&gateway, || {
                let refused = json!({"error": "invalid_grant", "error_description": "Invalid user credentials"});
                keycloak.once(GRANT, Answer::json(401, refused));
                assert_eq!(login().0, 401);
            }),
            &[
                "requests_total{outcome=\"invalid_grant\",route=\"login\"}",
                "iam_calls_total{operation=\"login\",outcome=\"refused\"}",
            ],
        ),
        (
            moved(&gateway, || {
                keycloak.once(GRANT, Answer::empty(503));
                assert_eq!(login().0, 500);
            }),
            &[
                "requests_total{outcome=\"temporarily_unavailable\",route=\"login\"}",
                "iam_calls_total{operation=\"login\",outcome=\"failed\"}",
            ],
        ),
        (
            moved(&gateway, || {
                keycloak.once(GRANT, Answer::html(200));
                assert_eq!(login().0, 500);
            }),
            &[
                "requests_total{outcome=\"server_error\",route=\"login\"}",
                "iam_calls_total{operation=\"login\",outcome=\"unreadable\"}",
            ],
        ),
        (
            moved(&gateway, || assert_eq!(token(&[EXCHANGE]).0, 200)),
            &[
                "requests_total{outcome=\"ok\",route=\"token\"}",
                "knowledge_total{source=\"hit\"}",
            ],
        ),
        (
            moved(&gateway, || {
                assert_eq!(token(&[EXCHANGE, ("scope", "a  b")]).0, 400)
            }),
            &["requests_total{outcome=\"invalid_scope\",route=\"token\"}"],
        ),
        (
            moved(&gateway, || {
                assert_eq!(token(&[("grant_type", "password")]).0, 400)
            }),
            &["requests_total{outcome=\"unsupported_grant_type\",route=\"token\"}"],
        ),
        (
            moved(&gateway, || assert_eq!(token(&[]).0, 400)),
            &["requests_total{outcome=\"invalid_request\",route=\"token\"}"],
        ),
        (
            moved(&gateway, || {
                keycloak.once(END, Answer::empty(204));
                assert_eq!(ask(&gateway, LOGOUT, &with(&session, &[])).0, 200);
            }),
            &[
                "requests_total{outcome=\"ok\",route=\"logout\"}",
                "iam_calls_total{operation=\"logout\",outcome=\"ok\"}",
            ],
        ),
        (
            moved(&gateway, || assert_eq!(token(&[EXCHANGE]).0, 401)),
            &["requests_total{outcome=\"invalid_grant\",route=\"token\"}"],
        ),
        (
            moved(&gateway, || {
                Connection::to(gateway.addresses().public)
                    .send("NO HTTP\r\n\r\n")
                    .answer();
            }),
            &["requests_total{outcome=\"invalid_request\",route=\"other\"}"],
        ),
    ];
    for (moved, expected) in happened {
        assert_eq!(moved, one_of(expected));
    }
}
