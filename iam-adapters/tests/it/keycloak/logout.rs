//! Logout.

use iam_adapters::Misconfiguration;
use serde_json::json;
use test_support::scripted_upstream::keycloak::{LOGOUT, refresh_token, refusal};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, is_misconfigured, kind, session, session_of};

#[tokio::test]
async fn logout_sends_the_refresh_token_unchanged() {
    let upstream = ScriptedUpstream::keycloak().await;
    let answer = adapter(&upstream.url()).end_session(&session()).await;
    assert_eq!(answer, Ok(()));
    let requests = upstream.requests();
    let [request] = requests.as_slice() else {
        panic!("one call, not {requests:?}");
    };
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", LOGOUT)
    );
    assert_eq!(
        request.text(),
        format!("refresh_token={}", refresh_token("auth-gateway"))
    );
    let authorization = request.header("authorization").expect("credentials");
    assert!(authorization.starts_with("Basic "), "{authorization}");
}

#[tokio::test]
async fn logout_of_an_ended_session_succeeds() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for answer in [
        Answer::empty(204),
        Answer::empty(200),
        refusal(400, "invalid_grant", "Invalid refresh token"),
        refusal(401, "invalid_grant", "Session not active"),
    ] {
        upstream.on(LOGOUT, answer);
        assert_eq!(keycloak.end_session(&session()).await, Ok(()));
    }
}

#[tokio::test]
async fn session_of_another_client_is_not_reported_as_ended() {
    let upstream = ScriptedUpstream::keycloak().await;
    let text = "Invalid refresh token. Token client and authorized client don't match";
    upstream.on(LOGOUT, refusal(400, "invalid_grant", text));
    let answer = adapter(&upstream.url())
        .end_session(&session_of("another"))
        .await;
    is_misconfigured(&answer, Misconfiguration::ForeignClient);
}

#[tokio::test]
async fn page_with_status_200_is_no_logout() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for answer in [
        Answer::html(200),
        Answer::json(200, json!({"status": "Ok"})),
        Answer::json(200, json!({"error": "invalid_grant"})),
        Answer::empty(202),
    ] {
        upstream.on(LOGOUT, answer);
        assert_eq!(kind(&keycloak.end_session(&session()).await), "unreadable");
    }
}
