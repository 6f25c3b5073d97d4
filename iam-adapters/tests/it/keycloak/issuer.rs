//! The issuer is confirmed before a password is sent.

use iam_adapters::Misconfiguration;
use serde_json::json;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, TOKEN, discovery, inactive,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, adapter_with, is_misconfigured, kind, log_in, misconfigured};

#[tokio::test]
async fn issuer_is_confirmed_once_before_the_first_password_is_sent() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for _ in 0..2 {
        assert_eq!(kind(&log_in(&keycloak).await), "ok");
    }
    let paths: Vec<_> = upstream
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(paths.iter().position(|path| path == DISCOVERY), Some(0));
    assert_eq!(paths.iter().filter(|path| *path == DISCOVERY).count(), 1);
    assert_eq!(paths.iter().filter(|path| *path == TOKEN).count(), 2);
    let request = &upstream.requests()[0];
    assert_eq!((request.method.as_str(), request.body.len()), ("GET", 0));
    assert_eq!(request.header("authorization"), None);
}

#[tokio::test]
async fn no_password_is_sent_to_another_issuer() {
    let upstream = ScriptedUpstream::keycloak().await;
    let own = format!("{}/realms/shop", upstream.url());
    for other in [
        format!("{own}/"),
        own.to_uppercase(),
        own.replace("127.0.0.1", "localhost"),
        String::new(),
    ] {
        upstream.on(DISCOVERY, discovery(&other));
        let answer = log_in(&adapter(&upstream.url())).await;
        assert_eq!(
            misconfigured(&answer),
            Some(Misconfiguration::Issuer),
            "{other}"
        );
    }
    assert!(upstream.requests_to(TOKEN).is_empty());
}

#[tokio::test]
async fn no_password_is_sent_if_discovery_fails() {
    let upstream = ScriptedUpstream::keycloak().await;
    for (answer, expected) in [
        (
            Answer::json(404, json!({"error": "Realm does not exist"})),
            "misconfigured",
        ),
        (Answer::html(200), "unreadable"),
        (Answer::json(200, json!({})), "unreadable"),
        (Answer::json(200, json!({"issuer": 1})), "unreadable"),
        (
            Answer::json(200, json!([format!("{}/realms/shop", upstream.url())])),
            "unreadable",
        ),
        (Answer::html(503), "failed"),
        (Answer::empty(429), "throttled"),
        (Answer::reset(), "unreachable"),
    ] {
        upstream.on(DISCOVERY, answer);
        let answer = log_in(&adapter(&upstream.url())).await;
        assert_eq!(kind(&answer), expected);
    }
    assert!(upstream.requests_to(TOKEN).is_empty());
}

#[tokio::test]
async fn issuer_can_be_configured_independently_of_the_address() {
    let upstream = ScriptedUpstream::keycloak().await;
    let public = "https://login.example.test/auth/realms/shop";
    upstream
        .on(DISCOVERY, discovery(public))
        .on(INTROSPECTION, inactive());
    let keycloak = adapter_with(&upstream.url(), &json!({"issuer": public}));
    assert_eq!(keycloak.issuer(), public);
    assert_eq!(kind(&keycloak.probe().await), "ok");
}

#[tokio::test]
async fn probe_that_finds_another_issuer_stops_logins() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    assert_eq!(kind(&keycloak.probe().await), "ok");
    upstream.on(DISCOVERY, discovery("http://elsewhere.test/realms/shop"));
    is_misconfigured(&keycloak.probe().await, Misconfiguration::Issuer);
    let before = upstream.requests_to(TOKEN).len();
    let answer = log_in(&keycloak).await;
    is_misconfigured(&answer, Misconfiguration::Issuer);
    assert_eq!(upstream.requests_to(TOKEN).len(), before);
}
