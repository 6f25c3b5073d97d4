//! Which counters change with each outcome, and that no other does.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::gateway::{TestGateway, scripted_keycloak_settings};
use test_support::scripted_upstream::keycloak::{INTROSPECTION, TOKEN as GRANT, inactive};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::wait::until;
use test_support::wire::{ALICE, Connection, post};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{EXCHANGE, exposition, requests, send, with};

struct IamFixture {
    keycloak: ScriptedUpstream,
    gateway: TestGateway,
}

impl IamFixture {
    /// A gateway whose first probe is complete, and whose next one is an hour away.
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(more: &[(&str, &str)]) -> Self {
        let keycloak = ScriptedUpstream::keycloak().await;
        keycloak.once(INTROSPECTION, inactive());
        let gateway = TestGateway::start(
            &[
                more,
                &scripted_keycloak_settings(&keycloak.url()),
                &[("upstream.probe_interval", "1h")],
            ]
            .concat(),
        );
        // The last call of a probe.
        keycloak.received(GRANT, 1).await;
        Self { keycloak, gateway }
    }

    fn log_in(&self) -> (u16, Value) {
        let alice = serde_json::from_str(ALICE).expect("JSON");
        send(&self.gateway, LOGIN, &alice)
    }

    /// Panics unless exactly these counters change, by one each.
    #[track_caller]
    fn counts(&self, counters: &[&str], happens: impl FnOnce()) {
        let before = exposition(&self.gateway);
        happens();
        let after = exposition(&self.gateway);
        let aside = ["management", "probe", "process"];
        let moved: BTreeSet<_> = after
            .names()
            .into_iter()
            .filter(|name| name.contains("_total") && !aside.iter().any(|not| name.contains(not)))
            .map(|name| (name, after.count(name) - before.count(name)))
            .filter(|(_, by)| *by != 0)
            .map(|(name, by)| (name.replace("auth_gateway_", ""), by))
            .collect();
        let expected = counters.iter().map(|name| ((*name).to_owned(), 1));
        assert_eq!(moved, expected.collect());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_outcome_of_a_login_is_counted() {
    let fixture = IamFixture::new().await;
    let wrong = json!({"error": "invalid_grant", "error_description": "Invalid user credentials"});
    for (answer, status, outcome, call) in [
        (None, 200, "ok", "ok"),
        (
            Some(Answer::json(401, wrong)),
            401,
            "invalid_grant",
            "refused",
        ),
        (
            Some(Answer::empty(503)),
            500,
            "temporarily_unavailable",
            "failed",
        ),
        (
            Some(Answer::empty(429)),
            429,
            "temporarily_unavailable",
            "throttled",
        ),
        (
            Some(Answer::reset()),
            500,
            "temporarily_unavailable",
            "unreachable",
        ),
        (Some(Answer::html(200)), 500, "server_error", "unreadable"),
        (
            Some(Answer::redirect(302, "/")),
            500,
            "server_error",
            "misconfigured",
        ),
    ] {
        let request = format!("requests_total{{outcome=\"{outcome}\",route=\"login\"}}");
        let call =
            format!("iam_calls_total{{iam=\"keycloak\",operation=\"login\",outcome=\"{call}\"}}");
        fixture.counts(&[&*request, &*call], || {
            if let Some(answer) = answer {
                fixture.keycloak.once(GRANT, answer);
            }
            assert_eq!(fixture.log_in().0, status, "{outcome}");
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_outcome_of_an_exchange_and_a_logout_is_counted() {
    let fixture = IamFixture::new().await;
    let (_, session) = fixture.log_in();
    for (path, more, status, counters) in [
        (
            TOKEN,
            &[EXCHANGE][..],
            200,
            &[
                "requests_total{outcome=\"ok\",route=\"token\"}",
                "exchanges_total{iam=\"keycloak\",source=\"hit\"}",
            ][..],
        ),
        (
            TOKEN,
            &[EXCHANGE, ("scope", "a  b")],
            400,
            &["requests_total{outcome=\"invalid_scope\",route=\"token\"}"],
        ),
        (
            TOKEN,
            &[("grant_type", "password")],
            400,
            &["requests_total{outcome=\"unsupported_grant_type\",route=\"token\"}"],
        ),
        (
            TOKEN,
            &[],
            400,
            &["requests_total{outcome=\"invalid_request\",route=\"token\"}"],
        ),
        (
            LOGOUT,
            &[],
            200,
            &[
                "requests_total{outcome=\"ok\",route=\"logout\"}",
                "iam_calls_total{iam=\"keycloak\",operation=\"logout\",outcome=\"ok\"}",
            ],
        ),
        (
            TOKEN,
            &[EXCHANGE],
            401,
            &["requests_total{outcome=\"invalid_grant\",route=\"token\"}"],
        ),
    ] {
        fixture.counts(counters, || {
            let (answered, _) = send(&fixture.gateway, path, &with(&session, more));
            assert_eq!(answered, status, "{path} {more:?}");
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_login_is_counted_by_its_limit() {
    for (limit, setting) in [
        ("account", "login_limits.account_failures"),
        ("account_slow", "login_limits.account_failures_in_a_row"),
        ("address", "login_limits.address_failures"),
        ("replica", "login_limits.rate"),
        (
            "account_sessions",
            "login_limits.account_sessions_per_minute",
        ),
    ] {
        let fixture = IamFixture::with(&[(setting, "1")]).await;
        let mut status = 200;
        if limit == "account_sessions" {
            // Another one is reserved for the address, which is known then.
            assert_eq!(fixture.log_in().0, status, "{limit}");
        } else {
            let wrong = json!({"error": "invalid_grant"});
            fixture.keycloak.once(GRANT, Answer::json(401, wrong));
            status = 401;
        }
        assert_eq!(fixture.log_in().0, status, "{limit}");
        let throttled = format!("logins_throttled_total{{iam=\"keycloak\",limit=\"{limit}\"}}");
        let request = "requests_total{outcome=\"temporarily_unavailable\",route=\"login\"}";
        fixture.counts(&[&throttled, request], || {
            assert_eq!(fixture.log_in().0, 429, "{limit}");
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_whose_connection_is_reset_is_counted_as_aborted() {
    let fixture = IamFixture::new().await;
    fixture.keycloak.once(GRANT, Answer::hanging());
    let calls = fixture.keycloak.request_count();
    let mut client = TcpStream::connect(fixture.gateway.addresses().public)
        .await
        .expect("connected");
    let request = post(LOGIN, ALICE);
    client.write_all(request.as_bytes()).await.expect("sent");
    until("the call", async || {
        fixture.keycloak.request_count() > calls
    })
    .await;
    let aborted = || exposition(&fixture.gateway).count(&requests("login", "aborted"));
    assert_eq!(aborted(), 0);
    client.set_zero_linger().expect("set");
    drop(client);
    until("the end of the request", async || aborted() > 0).await;
    assert_eq!(aborted(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_request_is_counted_as_invalid() {
    let fixture = IamFixture::new().await;
    fixture.counts(
        &["requests_total{outcome=\"invalid_request\",route=\"other\"}"],
        || {
            let mut connection = Connection::to(fixture.gateway.addresses().public);
            assert_eq!(connection.send("NO HTTP\r\n\r\n").answer().status, 400);
        },
    );
}
