//! Sessions that an operator revokes on the management listener.

use std::time::Duration;

use iam_conformance::Account;
use jiff::Timestamp;
use serde_json::{Value, json};
use test_support::client::{Response, Session};
use test_support::endpoints::REVOKE;
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::{IamFixture, READ, session_of};

const TOKEN: &str = "operators-token-of-some-length";

/// Cached data stays fresh for longer than any of these tests takes.
const SETTINGS: [(&str, &str); 3] = [
    ("management.token", TOKEN),
    ("session.freshness", "1h"),
    ("permissions.ttl", "1h"),
];

/// Two replicas without Redis, and two users.
struct RevocationFixture {
    iam: IamFixture,
    one: TestGateway,
    other: TestGateway,
    alice: Account,
    bob: Account,
}

impl RevocationFixture {
    async fn new() -> Self {
        let (iam, keys) = (IamFixture::in_memory(), TestKeys::new());
        let settings = [&keys.settings()[..], &SETTINGS].concat();
        let (one, other) = (iam.gateway_with(&settings), iam.gateway_with(&settings));
        let (alice, bob) = (iam.user(&[READ]).await, iam.user(&[READ]).await);
        Self {
            iam,
            one,
            other,
            alice,
            bob,
        }
    }

    fn wait_a_second(&self) {
        self.iam.clock.advance(Duration::from_secs(1));
    }
}

async fn revoke(gateway: &TestGateway, body: &Value) -> Response {
    gateway
        .operate(REVOKE, Some(TOKEN), &body.to_string())
        .await
}

async fn serves(gateway: &TestGateway, session: &Session) -> bool {
    let answer = gateway.exchange(session, READ).await;
    if answer.status != 200 {
        answer.is_error(401, "invalid_grant");
    }
    answer.status == 200
}

#[tokio::test]
async fn each_selector_revokes_its_sessions_at_a_replica_without_requests_of_them() {
    for (selector, others, neighbours) in [
        ("session_id", true, true),
        ("subject", false, true),
        ("iam", false, false),
        ("all", false, false),
    ] {
        let fixture = RevocationFixture::new().await;
        let session = session_of(&fixture.one, &fixture.alice).await;
        let of_the_same_user = session_of(&fixture.one, &fixture.alice).await;
        let of_a_neighbour = session_of(&fixture.one, &fixture.bob).await;
        let value = match selector {
            "session_id" => json!(session.session_id),
            "subject" => json!(fixture.alice.subject.as_str()),
            "iam" => json!("mock"),
            _ => json!(true),
        };
        let answer = revoke(&fixture.other, &json!({ selector: value })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("cache-control"), "no-store");
        let body = answer.json();
        assert_eq!(body["revoked"], selector);
        assert_eq!(body["replication"], "off");
        // The time of the call, which is also that of the login.
        let until = (selector != "session_id").then_some(session.verified_at.as_str());
        assert_eq!(body["begun_until"].as_str(), until);
        for (session, expected) in [
            (&session, false),
            (&of_the_same_user, others),
            (&of_a_neighbour, neighbours),
        ] {
            assert_eq!(
                serves(&fixture.other, session).await,
                expected,
                "{selector}"
            );
        }
        fixture.wait_a_second();
        let later = session_of(&fixture.other, &fixture.alice).await;
        assert!(serves(&fixture.other, &later).await);
    }
}

#[tokio::test]
async fn invalid_revocation_is_refused_with_the_member_and_revokes_nothing() {
    let fixture = RevocationFixture::new().await;
    let session = session_of(&fixture.one, &fixture.alice).await;
    let selectors = "The body must have exactly one of the members `session_id`, `subject`, `iam` \
                     and `all`.";
    let unknown = "The body has an unknown member.";
    let (id, subject) = (&session.session_id, fixture.alice.subject.as_str());
    let no_id = "The member `session_id` is not a session id.";
    let no_time = "The member `begun_until` is not a time with an offset, such as \
                   2030-01-31T12:00:00Z.";
    let tomorrow = Timestamp::now() + jiff::SignedDuration::from_hours(24);
    for (body, description) in [
        (json!([]), "The body is not a JSON object."),
        (json!({}), selectors),
        (json!({ "begun_until": session.verified_at }), selectors),
        (json!({ "session_id": id, "subject": subject }), selectors),
        (json!({ "subject": subject, "iam": "mock" }), selectors),
        (json!({ "iam": "mock", "all": true }), selectors),
        (json!({ "session_id": id, "all": true }), selectors),
        (json!({ "all": true, "begun_untill": "x" }), unknown),
        (json!({ "All": true }), unknown),
        (json!({ "all": false }), "The member `all` must be true."),
        (json!({ "all": "true" }), "The member `all` must be true."),
        (json!({ "all": null }), "The member `all` must be true."),
        (
            json!({ "session_id": 7 }),
            "The member `session_id` must be a string.",
        ),
        (
            json!({ "subject": null }),
            "The member `subject` must be a string.",
        ),
        (
            json!({ "iam": ["mock"] }),
            "The member `iam` must be a string.",
        ),
        (
            json!({ "all": true, "begun_until": 1_700_000_000 }),
            "The member `begun_until` must be a string.",
        ),
        (json!({ "session_id": "" }), no_id),
        (json!({ "session_id": format!("{id}A") }), no_id),
        (json!({ "session_id": session.session_token }), no_id),
        (
            json!({ "session_id": id, "begun_until": session.verified_at }),
            "The members `session_id` and `begun_until` cannot be combined.",
        ),
        (
            json!({ "subject": "" }),
            "The member `subject` must not be empty.",
        ),
        (
            json!({ "iam": "" }),
            "The member `iam` is not the name of a configured IAM.",
        ),
        (
            json!({ "iam": "keycloak" }),
            "The member `iam` is not the name of a configured IAM.",
        ),
        (json!({ "all": true, "begun_until": "" }), no_time),
        (json!({ "all": true, "begun_until": "1700000000" }), no_time),
        (json!({ "all": true, "begun_until": "2026-11-20" }), no_time),
        (
            json!({ "all": true, "begun_until": "2026-11-20T09:15:00" }),
            no_time,
        ),
        (
            json!({ "all": true, "begun_until": tomorrow.to_string() }),
            "The member `begun_until` is in the future.",
        ),
    ] {
        let answer = revoke(&fixture.one, &body).await;
        answer.is_error(400, "invalid_request");
        assert_eq!(answer.json()["error_description"], description, "{body}");
    }
    let twice = r#"{"all":true,"all":true}"#;
    let answer = fixture.one.operate(REVOKE, Some(TOKEN), twice).await;
    let description = "The member `all` appears more than once.";
    assert_eq!(answer.json()["error_description"], description);
    assert!(serves(&fixture.one, &session).await);
    assert_eq!(fixture.one.metric("revocations", "").await, 0);
}
