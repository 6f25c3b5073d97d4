//! The bearer token of operators.

use serde_json::json;
use test_support::endpoints::REVOKE;
use test_support::secrecy::{PASSWORD, SecrecyFixture};
use test_support::wire::{fetch, post, with_header};

use crate::GATEWAY;

const TOKEN: &str = "canary-token-of-an-operator";
const IDENTIFIER_KEY: &str = "canary-key-of-identifiers-0123456789";
const WRONG: &str = "canary-token-of-another-one";

#[tokio::test(flavor = "multi_thread")]
async fn operator_call_writes_no_token_and_no_session_id() {
    let settings = [
        ("management.token", TOKEN),
        ("audit.destination", "stdout"),
        ("keys.identifier_key", IDENTIFIER_KEY),
    ];
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &settings).await;
    fixture.add_secret("the token of operators", TOKEN);
    fixture.add_secret("a wrong token", WRONG);
    fixture.add_secret("the key of identifiers", IDENTIFIER_KEY);
    let session = fixture.log_in(PASSWORD, 200);
    let id = session["session_id"].as_str().expect("an id");
    fixture.add_secret("the session id", id);
    let (_, management) = fixture.replicas[0].addresses();
    for (token, body, status) in [
        (WRONG, json!({ "all": true }), 401),
        (TOKEN, json!({ "session_id": id, "all": true }), 400),
        (TOKEN, json!({ "session_id": id, "x": WRONG }), 400),
        (TOKEN, json!({ "session_id": id }), 200),
    ] {
        let bearer = format!("Authorization: Bearer {token}");
        let request = with_header(&bearer, &post(REVOKE, &body.to_string()));
        let answer = fetch(management, request);
        assert_eq!(answer.status, status, "{body}");
        fixture.record(&answer);
    }
    fixture.exchange(0, &session, 401);
    let written = fixture.end();
    for event in ["session_revocation", "operator_refused"] {
        assert!(
            written.contains(&format!(r#""event":"{event}","#)),
            "{event}"
        );
    }
}
