//! Would Keycloak serve this gateway now.

use iam_adapters::{IamAdapter, IamError, Misconfiguration};
use serde_json::json;

use super::{adapter, misconfigured};
use crate::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, active, discovery, inactive, refusal,
};
use crate::scripted_upstream::{Answer, ScriptedUpstream};

async fn upstream() -> ScriptedUpstream {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    upstream
}

#[tokio::test]
async fn a_probe_reads_the_issuer_anew_and_asks_about_a_made_up_token() {
    let upstream = upstream().await;
    let keycloak = adapter(&upstream.url());
    for _ in 0..2 {
        assert_eq!(keycloak.probe().await, Ok(()));
    }
    let asked: Vec<_> = upstream
        .requests()
        .iter()
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
            Misconfiguration::Realm,
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
        Some(Misconfiguration::Realm)
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
