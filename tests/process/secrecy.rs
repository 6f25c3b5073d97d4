//! No secret is ever written, at any log level, by the gateway or its dependencies.

mod heads;
mod keys;
mod logins;
mod logout_tokens;
mod operators;
mod outages;

use serde_json::json;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::scripted_upstream::{Answer, PROTOCOLS, WireProtocol};
use test_support::secrecy::{PASSWORD, SecrecyFixture, UPSTREAM_ACCESS, WRONG};

use crate::GATEWAY;

#[tokio::test(flavor = "multi_thread")]
async fn at_trace_level_no_log_line_error_or_metric_contains_a_secret() {
    for protocol in &PROTOCOLS {
        no_secret_is_written(protocol).await;
    }
}

async fn no_secret_is_written(protocol: &WireProtocol) {
    let mut fixture = SecrecyFixture::over(protocol, GATEWAY, 2, &[]).await;
    let mut granted = (protocol.grant)();
    granted["access_token"] = json!(UPSTREAM_ACCESS);
    fixture.iam.on(protocol.token, Answer::json(200, granted));
    let session = fixture.log_in(PASSWORD, 200);
    protocol.refuse_once(&fixture.iam);
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
        // RFC 7009 section 2.2: any body with status 200 confirms a revocation.
        let ended = fault.is_json_object(200) && protocol.logout_is_revocation;
        fixture.iam.on(protocol.token, fault.clone());
        fixture.iam.on(protocol.logout, fault);
        fixture.log_in(PASSWORD, 500);
        let status = if ended { 200 } else { 500 };
        fixture.post_json(1, LOGOUT, &other, status);
        fixture.read_management();
        fixture.recovers();
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
