//! One gateway with two IAMs, each a scripted Keycloak.

use serde_json::{Value, json};
use test_support::client::Session;
use test_support::gateway::TestGateway;
use test_support::scripted_upstream::keycloak::{
    CLIENT, CLIENT_SECRET, INTROSPECTION, LOGOUT, PERMISSIONS, PERMISSIONS_CLIENT, REALM, SUBJECT,
    TOKEN, inactive,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

/// The gateway, the IAM `one`, which is the default, and the IAM `other` of the domain `other.test`.
struct TwoIams {
    one: ScriptedUpstream,
    other: ScriptedUpstream,
    gateway: TestGateway,
}

impl TwoIams {
    async fn new(overrides: &[(&str, &str)]) -> Self {
        let one = ScriptedUpstream::keycloak().await;
        let other = ScriptedUpstream::keycloak().await;
        for iam in [&one, &other] {
            // The only probe introspects a made-up token.
            iam.once(INTROSPECTION, inactive());
        }
        let (one_url, other_url) = (one.url(), other.url());
        let mut settings = vec![
            ("upstream.probe_interval", "1h"),
            ("iam.one.type", "keycloak"),
            ("iam.one.url", one_url.as_str()),
            ("iam.one.realm", REALM),
            ("iam.one.client_id", CLIENT),
            ("iam.one.client_secret", CLIENT_SECRET),
            ("iam.one.permissions_client", PERMISSIONS_CLIENT),
            ("iam.one.default", "true"),
            ("iam.other.type", "keycloak"),
            ("iam.other.url", &other_url),
            ("iam.other.realm", REALM),
            ("iam.other.client_id", CLIENT),
            ("iam.other.client_secret", CLIENT_SECRET),
            ("iam.other.permissions_client", PERMISSIONS_CLIENT),
            ("iam.other.domains", "other.test"),
            ("iam.other.subject_prefix", "other-"),
        ];
        settings.extend(overrides);
        let gateway = TestGateway::start(&settings);
        gateway.wait_for_readiness("ready", &[]).await;
        Self {
            one,
            other,
            gateway,
        }
    }

    async fn log_in(&self, email: &str) -> Session {
        self.gateway
            .log_in(email, &"password".into())
            .await
            .session()
    }

    async fn sub(&self, session: &Session) -> Value {
        let token = self.gateway.exchange(session, PERMISSIONS[0]).await.token();
        token.claims()["sub"].clone()
    }

    /// The successful calls of an operation at the two IAMs.
    async fn calls(&self, operation: &str) -> [u64; 2] {
        let label = |iam| format!("operation=\"{operation}\",outcome=\"ok\",iam=\"{iam}\"");
        let calls = "iam_calls_total";
        [
            self.gateway.metric(calls, &label("one")).await,
            self.gateway.metric(calls, &label("other")).await,
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_iam_serves_the_users_of_its_domains_and_their_sub_has_its_prefix() {
    let iams = TwoIams::new(&[]).await;
    let one = iams.log_in("alice@example.test").await;
    assert_eq!(iams.calls("login").await, [1, 0]);
    let other = iams.log_in("alice@Other.test").await;
    assert_eq!(iams.calls("login").await, [1, 1]);
    assert_eq!(iams.sub(&one).await, json!(SUBJECT));
    assert_eq!(iams.sub(&other).await, json!(format!("other-{SUBJECT}")));
    assert_eq!(iams.gateway.log_out(&other).await.status, 200);
    assert_eq!(iams.calls("logout").await, [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn iam_that_is_away_degrades_the_replica_and_users_of_the_other_one_are_served() {
    let iams = TwoIams::new(&[]).await;
    for path in [TOKEN, INTROSPECTION, LOGOUT] {
        iams.other.on(path, Answer::text(503, "text/plain", "away"));
    }
    let password = "password".into();
    let failed = iams.gateway.log_in("alice@other.test", &password).await;
    assert_eq!(failed.status, 500);
    iams.gateway
        .wait_for_readiness("degraded", &["failed"])
        .await;
    let ready = iams.gateway.ready().await;
    assert_eq!(ready.status, 200);
    let ready = ready.json();
    assert_eq!(ready["reasons"][0]["iam"], json!("other"));
    let states = ready["iams"].as_array().expect("a list").iter();
    let states: Vec<_> = states
        .map(|iam| (&iam["name"], &iam["last_result"]))
        .collect();
    assert_eq!(
        states,
        [
            (&json!("one"), &json!("ok")),
            (&json!("other"), &json!("failed"))
        ]
    );
    let session = iams.log_in("alice@example.test").await;
    assert_eq!(iams.sub(&session).await, json!(SUBJECT));
    assert!(iams.one.requests().len() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn domain_of_an_iam_without_logins_is_refused_like_a_wrong_password() {
    let iams = TwoIams::new(&[("iam.other.login", "false")]).await;
    let password = "password".into();
    let refused = iams.gateway.log_in("alice@other.test", &password).await;
    refused.is_error(401, "invalid_grant");
    assert_eq!(iams.calls("login").await, [0, 0]);
}
