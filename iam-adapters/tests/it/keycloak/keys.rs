//! The realm's keys.

use serde_json::json;
use test_support::scripted_upstream::keycloak::{CLIENT, KEYS, key_set};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, kind};

#[tokio::test]
async fn keys_are_fetched_from_the_realm_without_credentials() {
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
async fn key_set_without_a_usable_key_is_unreadable() {
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
