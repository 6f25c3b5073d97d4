//! The realm's keys, for the logout tokens that it sends.

use iam_adapters::IamAdapter as _;
use serde_json::json;
use test_support::scripted_upstream::keycloak::{CLIENT, DISCOVERY, KEYS, key_set};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, adapter_with, kind};

#[tokio::test]
async fn the_keys_are_fetched_from_the_realm_and_without_our_credentials() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on(KEYS, key_set());
    let keycloak = adapter(&upstream.url());
    assert_eq!(keycloak.logout_audience(), Some(CLIENT));
    let keys = keycloak.verification_keys().await;
    assert_eq!(kind(&keys), "ok");
    let requests = upstream.requests();
    let [request] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!((&*request.method, &*request.path), ("GET", KEYS));
    assert!(
        request
            .headers
            .iter()
            .all(|(name, _)| name != "authorization")
    );
    assert!(request.body.is_empty());
}

#[tokio::test]
async fn no_document_leads_to_keys_elsewhere() {
    let thief = ScriptedUpstream::start().await;
    thief.on(KEYS, key_set());
    let upstream = ScriptedUpstream::start().await;
    let issuer = format!("{}/realms/shop", upstream.url());
    let elsewhere = format!("{}{KEYS}", thief.url());
    upstream.on(KEYS, key_set()).on(
        DISCOVERY,
        Answer::json(200, json!({"issuer": issuer, "jwks_uri": elsewhere})),
    );
    let keycloak = adapter_with(&upstream.url(), &json!({"issuer": issuer}));
    assert_eq!(kind(&keycloak.verification_keys().await), "ok");
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn a_set_without_a_key_that_can_be_used_is_unreadable() {
    let upstream = ScriptedUpstream::start().await;
    for unusable in [
        json!({"keys": []}),
        json!({"keys": [{"kty": "oct", "kid": "k", "k": "c2VjcmV0"}]}),
        json!({}),
        json!([]),
    ] {
        upstream.on(KEYS, Answer::json(200, unusable));
        let keys = adapter(&upstream.url()).verification_keys().await;
        assert_eq!(kind(&keys), "unreadable");
    }
}
