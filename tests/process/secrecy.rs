//! No secret is ever written, at any log level, by the gateway or its dependencies.

mod heads;
mod keys;
mod logins;
mod logout_tokens;
mod operators;
mod outages;

use serde_json::json;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{LOGOUT as END, TOKEN as GRANT, grant};
use test_support::secrecy::{PASSWORD, SecrecyFixture, UPSTREAM_ACCESS, WRONG};

use crate::GATEWAY;

#[tokio::test(flavor = "multi_thread")]
async fn at_trace_level_no_log_line_error_or_metric_contains_a_secret() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 2, &[]).await;
    let mut granted = grant();
    granted["access_token"] = json!(UPSTREAM_ACCESS);
    fixture.keycloak.on(GRANT, Answer::json(200, granted));
    let session = fixture.log_in(PASSWORD, 200);
    let refused =
        json!({"error": "invalid_grant", "error_description": "Invalid user credentials"});
    fixture.keycloak.once(GRANT, Answer::json(401, refused));
    fixture.log_in(WRONG, 401);
    // From the cache, then by an introspection.
    fixture.exchange(0, &session, 200);
    fixture.exchange(1, &session, 200);

    let mut broken = session.clone();
    let token = session["session_token"].as_str().expect("a token");
    broken["session_token"] = json!(token[..token.len() - 1]);
    fixture.exchange(0, &broken, 401);
    fixture.post_json(0, TOKEN, &session, 400);
    fixture.post_json(0, LOGOUT, &broken, 400);
    fixture.post_json(
        0,
        &format!("{LOGIN}?password=canary%20wrong%20password"),
        &session,
        400,
    );

    for fault in SecrecyFixture::faults() {
        // Another one each time: the gateway finishes a failed logout by itself.
        let other = fixture.log_in(PASSWORD, 200);
        fixture.keycloak.on(GRANT, fault.clone()).on(END, fault);
        fixture.log_in(PASSWORD, 500);
        fixture.post_json(1, LOGOUT, &other, 500);
        fixture.read_management();
        fixture.keycloak.in_good_health();
    }
    fixture.post_json(0, LOGOUT, &session, 200);
    fixture.exchange(0, &session, 401);
    let written = fixture.end();

    // The log has trace lines, also of dependencies.
    for target in [
        "auth_gateway::request",
        "actix_http",
        "hyper",
        "reqwest",
        "mio",
    ] {
        let first_line = format!(r#""level":"TRACE","target":"{target}"#);
        let second_line = format!(r#""level":"DEBUG","target":"{target}"#);
        let request = format!(r#""level":"INFO","target":"{target}"#);
        let expected = [first_line, second_line, request];
        assert!(
            expected.iter().any(|line| written.contains(line)),
            "{target}"
        );
    }
}
