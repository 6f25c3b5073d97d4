//! One gateway with two IAMs, each a scripted Keycloak.

use serde_json::{Value, json};
use test_support::client::Session;
use test_support::gateway::{TestGateway, two_scripted_keycloaks_settings};
use test_support::keys::TestKeys;
use test_support::logout_token::logout_token;
use test_support::scripted_upstream::keycloak::{
    INTROSPECTION, PERMISSIONS, SUBJECT, TOKEN, inactive, refusal,
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
        let gateway = gateway(&one, &other, overrides).await;
        Self {
            one,
            other,
            gateway,
        }
    }

    /// Restarts the gateway with other settings.
    async fn restart(self, overrides: &[(&str, &str)]) -> Self {
        let gateway = gateway(&self.one, &self.other, overrides).await;
        Self { gateway, ..self }
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

async fn gateway(
    one: &ScriptedUpstream,
    other: &ScriptedUpstream,
    overrides: &[(&str, &str)],
) -> TestGateway {
    for iam in [one, other] {
        // The only probe introspects a made-up token.
        iam.once(INTROSPECTION, inactive());
    }
    let (one_url, other_url) = (one.url(), other.url());
    let one_probe = [("upstream.probe_interval", "1h")];
    let iams = two_scripted_keycloaks_settings(&one_url, &other_url);
    let settings = [&one_probe[..], &iams, overrides].concat();
    let gateway = TestGateway::start(&settings);
    gateway.wait_for_readiness("ready", &[]).await;
    gateway
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
async fn exchanges_are_counted_by_iam_and_readiness_says_which_iam_has_no_logins() {
    let keys = TestKeys::new();
    let iams = TwoIams::new(&keys.settings()).await;
    let session = iams.log_in("alice@other.test").await;
    let no_logins = [("iam.other.login", "false")];
    let settings = [&keys.settings()[..], &no_logins].concat();
    let iams = iams.restart(&settings).await;
    assert_eq!(iams.sub(&session).await, json!(format!("other-{SUBJECT}")));
    let here = iams.log_in("alice@example.test").await;
    iams.sub(&here).await;
    iams.sub(&here).await;
    for (iam, exchanges) in [("one", 2), ("other", 1)] {
        let label = format!("iam=\"{iam}\"");
        let counted = iams.gateway.metric("exchanges_total", &label);
        assert_eq!(counted.await, exchanges, "{iam}");
    }
    let ready = iams.gateway.ready().await.json();
    let logins = ready["iams"].as_array().expect("a list").iter();
    let logins: Vec<_> = logins.map(|iam| &iam["login"]).collect();
    assert_eq!(logins, [&json!(true), &json!(false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_server_gets_the_name_of_the_iam_in_the_settings() {
    let policy_server = ScriptedUpstream::start().await;
    let decision = Answer::json(200, json!({ "result": [PERMISSIONS[0]] }));
    policy_server.on("/decide", decision);
    let url = format!("{}/decide", policy_server.url());
    let source = [("permissions.source", "http"), ("permissions.url", &url)];
    let iams = TwoIams::new(&source).await;
    for (email, iam) in [("alice@example.test", "one"), ("alice@other.test", "other")] {
        iams.log_in(email).await;
        let requests = policy_server.requests_to("/decide");
        let question = requests.last().expect("a question").text();
        let question: Value = serde_json::from_str(&question).expect("JSON");
        assert_eq!(question["input"]["iam"], json!(iam));
        assert_eq!(question["input"]["subject"], json!(SUBJECT));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_beyond_a_limit_is_counted_by_its_iam_and_without_one_before_it_is_chosen() {
    let iams = TwoIams::new(&[
        ("login_limits.account_failures", "1"),
        ("login_limits.address_failures", "2"),
    ])
    .await;
    let throttled = async |limit: &str| {
        let label = |iam| format!("limit=\"{limit}\",iam=\"{iam}\"");
        let metric = async |iam| {
            iams.gateway
                .metric("logins_throttled_total", &label(iam))
                .await
        };
        [metric("one").await, metric("other").await, metric("").await]
    };
    for iam in [&iams.one, &iams.other] {
        iam.on(
            TOKEN,
            refusal(401, "invalid_grant", "Invalid user credentials"),
        );
    }
    for (email, status, account, address) in [
        ("alice@other.test", 401, [0, 0, 0], [0, 0, 0]),
        ("alice@other.test", 429, [0, 1, 0], [0, 0, 0]),
        ("alice@example.test", 401, [0, 1, 0], [0, 0, 0]),
        ("alice@example.test", 429, [0, 1, 0], [0, 0, 1]),
    ] {
        let answer = iams.gateway.log_in(email, &"password".into()).await;
        assert_eq!(answer.status, status, "{email}");
        assert_eq!(throttled("account").await, account, "{email}");
        assert_eq!(throttled("address").await, address, "{email}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_logout_token_is_counted_by_the_iam_of_its_issuer_and_without_one_if_it_has_none() {
    let iams = TwoIams::new(&[]).await;
    let refused = async |iam: &str| {
        let label = format!("iam=\"{iam}\"");
        iams.gateway.metric("logout_tokens_total", &label).await
    };
    let for_another_client = |url: &str| logout_token(url, "a", &json!({"aud": "another-client"}));
    for (token, expected) in [
        (for_another_client(&iams.other.url()), [0, 1, 0]),
        (for_another_client("https://unknown.test"), [0, 1, 1]),
        ("no token".to_owned(), [0, 1, 2]),
    ] {
        assert_eq!(iams.gateway.send_logout_token(&token).await.status, 400);
        let counted = [
            refused("one").await,
            refused("other").await,
            refused("").await,
        ];
        assert_eq!(counted, expected, "{token}");
    }
}
