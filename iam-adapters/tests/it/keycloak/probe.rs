//! Would Keycloak serve this gateway now.

use iam_adapters::{IamAdapter, IamError, Misconfiguration};
use serde_json::json;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, TOKEN, active, discovery, inactive, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, client, credentials, misconfigured};

/// The words for a password grant that names no user.
fn nameless() -> Answer {
    refusal(401, "invalid_request", "Missing parameter: username")
}

async fn upstream() -> ScriptedUpstream {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive()).on(TOKEN, nameless());
    upstream
}

#[tokio::test]
async fn a_probe_reads_the_issuer_anew_and_asks_about_a_made_up_token() {
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
    let asked: Vec<_> = upstream
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
    assert_eq!(asked, [once.clone(), once].concat());
}

/// The grant names no user, so that no account is locked and nothing begins.
#[tokio::test]
async fn a_probe_tries_direct_grants_until_they_are_known_to_be_on() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    let words = "Client not allowed for direct access grants";
    let off = refusal(400, "unauthorized_client", words);
    upstream.on(TOKEN, off.clone());
    for _ in 0..2 {
        let probed = keycloak.probe().await;
        assert_eq!(
            misconfigured(&probed),
            Some(Misconfiguration::PasswordLogin)
        );
    }
    upstream.on(TOKEN, nameless());
    for _ in 0..2 {
        assert_eq!(keycloak.probe().await, Ok(()));
    }
    let asked = || upstream.requests_to(TOKEN).into_iter();
    assert_eq!(asked().len(), 3);
    assert!(asked().all(|request| request.text() == "grant_type=password"));

    // Switched off again, which a user is the first to meet.
    upstream.on(TOKEN, off);
    assert_eq!(keycloak.probe().await, Ok(()));
    let login = keycloak.authenticate(&credentials("any"), &client()).await;
    assert_eq!(misconfigured(&login), Some(Misconfiguration::PasswordLogin));
    let probed = keycloak.probe().await;
    assert_eq!(
        misconfigured(&probed),
        Some(Misconfiguration::PasswordLogin)
    );
}

#[tokio::test]
async fn a_probe_that_cannot_try_direct_grants_says_why() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    upstream.on(TOKEN, Answer::json(503, json!({})));
    let probed = keycloak.probe().await;
    assert!(matches!(probed, Err(IamError::Failed(_))), "{probed:?}");
    upstream.on(TOKEN, nameless());
    assert_eq!(keycloak.probe().await, Ok(()));
}

#[tokio::test]
async fn a_probe_finds_what_the_next_call_would_meet() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    for (status, error, description, expected) in [
        (
            401,
            "invalid_client",
            "Client authentication failed.",
            Misconfiguration::ClientSecret,
        ),
        (401, "invalid_client", "", Misconfiguration::UnknownClient),
        (
            401,
            "invalid_request",
            "Authentication failed.",
            Misconfiguration::ClientSecret,
        ),
        (
            401,
            "unauthorized_client",
            "",
            Misconfiguration::ClientSecret,
        ),
        (
            403,
            "access_denied",
            "Realm not enabled",
            Misconfiguration::Tenant,
        ),
    ] {
        upstream.once(INTROSPECTION, refusal(status, error, description));
        assert_eq!(misconfigured(&keycloak.probe().await), Some(expected));
    }
    upstream.once(
        DISCOVERY,
        Answer::json(404, json!({"error": "Realm does not exist"})),
    );
    assert_eq!(
        misconfigured(&keycloak.probe().await),
        Some(Misconfiguration::Tenant)
    );
    upstream.once(DISCOVERY, refusal(403, "invalid_request", "HTTPS required"));
    assert_eq!(
        misconfigured(&keycloak.probe().await),
        Some(Misconfiguration::Tls)
    );
    upstream.once(DISCOVERY, discovery("http://elsewhere.test/realms/shop"));
    assert_eq!(
        misconfigured(&keycloak.probe().await),
        Some(Misconfiguration::Issuer)
    );
    assert_eq!(keycloak.probe().await, Ok(()));
}

#[tokio::test]
async fn an_iam_that_calls_nonsense_active_is_not_believed() {
    let upstream = upstream().await;
    upstream.on(INTROSPECTION, Answer::json(200, active()));
    let answer = adapter(&upstream.url()).probe().await;
    assert!(matches!(answer, Err(IamError::Unreadable(_))), "{answer:?}");
}
