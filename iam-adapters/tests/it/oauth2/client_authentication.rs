//! Client authentication.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use josekit::jwk::KeyPair as _;
use josekit::jwk::alg::ed::EdCurve;
use josekit::jws::{ES256, EdDSA, JwsVerifier, RS256};
use serde_json::{Value, json};
use test_support::scripted_upstream::{Answer, Request, ScriptedUpstream};

use super::{CLIENT, INTROSPECTION, NOW, SECRET, adapter_with, healthy, inactive, session, with};

/// The requests of a login, a logout and a probe.
async fn requests(upstream: &ScriptedUpstream, changes: &Value) -> Vec<Request> {
    let before = upstream.requests().len();
    let oauth2 = adapter_with(upstream, changes);
    let session = session(&oauth2).await;
    assert_eq!(oauth2.end_session(&session).await, Ok(()));
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(oauth2.probe().await, Ok(()));
    let mut requests = upstream.requests().split_off(before);
    requests.retain(|request| request.method == "POST");
    // The probe's grant is not needed after a login.
    assert_eq!(requests.len(), 5);
    requests
}

/// The parameters of a body.
fn parameters(body: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(body.as_bytes())
        .into_owned()
        .collect()
}

fn parameter(body: &str, name: &str) -> Vec<String> {
    let all = parameters(body).into_iter();
    all.filter(|(key, _)| key == name)
        .map(|(_, value)| value)
        .collect()
}

#[tokio::test]
async fn client_secret_basic_is_form_encoded_before_base64() {
    let upstream = healthy().await;
    let changes = json!({"client_id": "gate:way ü", "client_secret": "a+b %/&:c"});
    let mut response = super::active();
    response["client_id"] = json!("gate:way ü");
    upstream.on(INTROSPECTION, Answer::json(200, response));
    let pair = STANDARD.encode("gate%3Away+%C3%BC:a%2Bb+%25%2F%26%3Ac");
    for request in requests(&upstream, &changes).await {
        assert_eq!(
            request.header("authorization"),
            Some(format!("Basic {pair}"))
        );
        assert!(!request.text().contains("client_"), "{}", request.text());
    }
}

#[tokio::test]
async fn client_secret_basic_is_not_encoded_for_glewlwyd() {
    let upstream = healthy().await;
    let changes = json!({"preset": "glewlwyd", "client_secret": "a+b %/&:c"});
    let pair = STANDARD.encode("auth-gateway:a+b %/&:c");
    for request in requests(&upstream, &changes).await {
        assert_eq!(
            request.header("authorization"),
            Some(format!("Basic {pair}"))
        );
    }
}

#[tokio::test]
async fn client_secret_post_is_in_the_body_alone() {
    let upstream = healthy().await;
    let changes = json!({"client_auth_method": "client_secret_post"});
    for request in requests(&upstream, &changes).await {
        assert_eq!(request.header("authorization"), None);
        assert_eq!(parameter(&request.text(), "client_id"), [CLIENT]);
        assert_eq!(parameter(&request.text(), "client_secret"), [SECRET]);
    }
}

fn key_file(folder: &Path, pem: &[u8]) -> String {
    let file = folder.join("key.pem");
    std::fs::write(&file, pem).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    file.display().to_string()
}

fn changes(file: &str, more: &Value) -> Value {
    let changes = json!({
        "client_auth_method": "private_key_jwt",
        "client_secret": null,
        "private_key_file": file,
        "private_key_id": "key-1",
    });
    with(changes, more)
}

#[tokio::test]
async fn private_key_jwt_is_a_short_lived_assertion_of_its_own_for_every_request() {
    let es256 = ES256.generate_key_pair().expect("a key");
    let eddsa = EdDSA.generate_key_pair(EdCurve::Ed25519).expect("a key");
    let rs256 = RS256.generate_key_pair(2048).expect("a key");
    let es256_verifier = ES256.verifier_from_pem(es256.to_pem_public_key());
    let eddsa_verifier = EdDSA.verifier_from_pem(eddsa.to_pem_public_key());
    let rs256_verifier = RS256.verifier_from_pem(rs256.to_pem_public_key());
    let keys: [(&str, Vec<u8>, Box<dyn JwsVerifier>); 3] = [
        (
            "ES256",
            es256.to_pem_private_key(),
            Box::new(es256_verifier.expect("a key")),
        ),
        (
            "EdDSA",
            eddsa.to_pem_private_key(),
            Box::new(eddsa_verifier.expect("a key")),
        ),
        (
            "RS256",
            rs256.to_pem_private_key(),
            Box::new(rs256_verifier.expect("a key")),
        ),
    ];
    for (name, pem, verifier) in keys {
        let folder = tempfile::tempdir().expect("a folder");
        let file = key_file(folder.path(), &pem);
        let upstream = healthy().await;
        let mut ids = std::collections::BTreeSet::new();
        for request in requests(&upstream, &changes(&file, &json!({}))).await {
            let text = request.text();
            assert_eq!(request.header("authorization"), None);
            assert!(parameter(&text, "client_secret").is_empty());
            assert_eq!(parameter(&text, "client_id"), [CLIENT]);
            assert_eq!(
                parameter(&text, "client_assertion_type"),
                ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
            );
            let assertion = parameter(&text, "client_assertion").remove(0);
            let (signed, signature) = assertion.rsplit_once('.').expect("a JWS");
            let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
            let verified = verifier.verify(signed.as_bytes(), &signature);
            verified.expect("a valid signature");
            let parts: Vec<Value> = signed
                .split('.')
                .map(|part| URL_SAFE_NO_PAD.decode(part).expect("base64url"))
                .map(|part| serde_json::from_slice(&part).expect("JSON"))
                .collect();
            let expected = json!({"alg": name, "kid": "key-1", "typ": "JWT"});
            assert_eq!(parts[0], expected);
            let id = parts[1]["jti"].as_str().expect("an id").to_owned();
            let audience = format!("{}/iam", upstream.url());
            assert_eq!(
                parts[1],
                json!({
                    "iss": CLIENT,
                    "sub": CLIENT,
                    "aud": audience,
                    "iat": NOW,
                    "exp": NOW + 60,
                    "jti": id,
                })
            );
            assert_eq!(id.len(), 22);
            ids.insert(id);
        }
        assert_eq!(ids.len(), 5, "each request has its own jti");
    }
}

/// A JWT with these claims, whose signature no server would accept.
fn issued_token(claims: &Value) -> String {
    let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
    format!("e30.{claims}.c2lnbmF0dXJl")
}

#[tokio::test]
async fn client_assertion_is_the_token_of_the_file_until_it_expires() {
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = healthy().await;
    let with_file = |claims: &Value| {
        let token = issued_token(claims);
        let file = key_file(folder.path(), token.as_bytes());
        let changes = json!({
            "client_auth_method": "client_assertion",
            "client_secret": null,
            "client_assertion_file": file,
        });
        (token, changes)
    };
    for claims in [json!({"exp": NOW + 1, "sub": "x"}), json!({"sub": "x"})] {
        let (token, changes) = with_file(&claims);
        upstream.on(INTROSPECTION, Answer::json(200, super::active()));
        for request in requests(&upstream, &changes).await {
            let text = request.text();
            assert_eq!(request.header("authorization"), None);
            assert_eq!(parameter(&text, "client_id"), [CLIENT]);
            assert_eq!(
                parameter(&text, "client_assertion_type"),
                ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
            );
            assert_eq!(parameter(&text, "client_assertion"), [token.as_str()]);
        }
    }
    let (token, changes) = with_file(&json!({"exp": NOW, "sub": "canary"}));
    let before = upstream.requests().len();
    let oauth2 = adapter_with(&upstream, &changes);
    for fault in [
        oauth2.probe().await.expect_err("expired"),
        super::log_in(&oauth2).await.expect_err("expired"),
    ] {
        let text = fault.to_string();
        assert!(
            text.contains("the assertion in client_assertion_file has expired"),
            "{text}"
        );
        assert_eq!(fault.kind(), "misconfigured");
        assert!(
            !format!("{fault:?} {oauth2:?}").contains(&token),
            "{fault:?}"
        );
    }
    let mut sent = upstream.requests().split_off(before);
    sent.retain(|request| request.method == "POST");
    assert_eq!(sent.len(), 0, "an expired assertion is not sent");
}

#[tokio::test]
async fn audience_of_assertions_is_the_issuer_or_the_endpoint_that_is_called() {
    let key = ES256.generate_key_pair().expect("a key");
    let folder = tempfile::tempdir().expect("a folder");
    let file = key_file(folder.path(), &key.to_pem_private_key());
    let upstream = healthy().await;
    let url = upstream.url();
    for (more, is_issuer) in [
        (json!({"assertion_audience": "endpoint"}), false),
        (json!({"preset": "glewlwyd"}), false),
        (
            json!({"preset": "glewlwyd", "assertion_audience": "issuer"}),
            true,
        ),
    ] {
        upstream.on(INTROSPECTION, Answer::json(200, super::active()));
        for request in requests(&upstream, &changes(&file, &more)).await {
            let assertion = parameter(&request.text(), "client_assertion").remove(0);
            let claims = assertion.split('.').nth(1).expect("claims");
            let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64url");
            let claims: Value = serde_json::from_slice(&claims).expect("JSON");
            let expected = if is_issuer { "/iam" } else { &request.path };
            assert_eq!(claims["aud"], format!("{url}{expected}"));
        }
    }
}
