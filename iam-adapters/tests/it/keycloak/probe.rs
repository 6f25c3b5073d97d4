//! Probes.

use iam_adapters::{IamError, Misconfiguration};
use serde_json::json;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, TOKEN, active, discovery, inactive, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, client, credentials, is_misconfigured};

/// The response to a password grant without a user.
fn missing_user() -> Answer {
    refusal(401, "invalid_request", "Missing parameter: username")
}

async fn upstream() -> ScriptedUpstream {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream
        .on(INTROSPECTION, inactive())
        .on(TOKEN, missing_user());
    upstream
}

#[tokio::test]
async fn probe_fetches_the_issuer_and_introspects_an_invalid_token() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    let wrong = refusal(400, "invalid_grant", "Invalid user credentials");
    upstream.once(TOKEN, wrong);
    let login = keycloak
        .authenticate(&credentials("wrong"), &client())
        .await;
    assert!(login.is_err());
    let before = upstream.requests().len();
    for _ in 0..2 {
        assert_eq!(keycloak.probe().await, Ok(()));
    }
    let requests: Vec<_> = upstream
        .requests()
        .iter()
        .skip(before)
        .map(|request| (request.method.clone(), request.path.clone(), request.text()))
        .collect();
    let once = [
        ("GET", DISCOVERY, ""),
        (
            "POST",
            INTROSPECTION,
            "token=probe&token_type_hint=refresh_token",
        ),
    ]
    .map(|(method, path, body)| (method.to_owned(), path.to_owned(), body.to_owned()));
    assert_eq!(requests, [once.clone(), once].concat());
}

/// The grant names no user, so it locks no account and begins no session.
#[tokio::test]
async fn probe_tests_direct_grants_until_they_are_proven() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    let description = "Client not allowed for direct access grants";
    let disabled = refusal(400, "unauthorized_client", description);
    upstream.on(TOKEN, disabled.clone());
    for _ in 0..2 {
        let probed = keycloak.probe().await;
        is_misconfigured(&probed, Misconfiguration::PasswordLogin);
    }
    upstream.on(TOKEN, missing_user());
    for _ in 0..2 {
        assert_eq!(keycloak.probe().await, Ok(()));
    }
    let requests = || upstream.requests_to(TOKEN).into_iter();
    assert_eq!(requests().len(), 3);
    assert!(requests().all(|request| request.text() == "grant_type=password"));

    // Disabled again, which the next login finds.
    upstream.on(TOKEN, disabled);
    assert_eq!(keycloak.probe().await, Ok(()));
    let login = keycloak.authenticate(&credentials("any"), &client()).await;
    is_misconfigured(&login, Misconfiguration::PasswordLogin);
    let probed = keycloak.probe().await;
    is_misconfigured(&probed, Misconfiguration::PasswordLogin);
}

#[tokio::test]
async fn probe_fails_if_the_test_of_direct_grants_fails() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    upstream.on(TOKEN, Answer::json(503, json!({})));
    let probed = keycloak.probe().await;
    assert!(matches!(probed, Err(IamError::Failed(_))), "{probed:?}");
    upstream.on(TOKEN, missing_user());
    assert_eq!(keycloak.probe().await, Ok(()));
}

#[tokio::test]
async fn probe_returns_the_fault_of_the_discovery_document() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    upstream.once(
        DISCOVERY,
        Answer::json(404, json!({"error": "Realm does not exist"})),
    );
    is_misconfigured(&keycloak.probe().await, Misconfiguration::Tenant);
    upstream.once(DISCOVERY, refusal(403, "invalid_request", "HTTPS required"));
    is_misconfigured(&keycloak.probe().await, Misconfiguration::Tls);
    upstream.once(DISCOVERY, discovery("http://elsewhere.test/realms/shop"));
    is_misconfigured(&keycloak.probe().await, Misconfiguration::Issuer);
    assert_eq!(keycloak.probe().await, Ok(()));
}

#[tokio::test]
async fn iam_that_reports_an_invalid_token_as_active_is_unreadable() {
    let upstream = upstream().await;
    upstream.on(INTROSPECTION, Answer::json(200, active()));
    let answer = adapter(&upstream.url()).probe().await;
    assert!(matches!(answer, Err(IamError::Unreadable(_))), "{answer:?}");
}
