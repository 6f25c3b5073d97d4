//! Wycheproof's vectors.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use test_support::wycheproof::{Vector, keys, vectors};

use super::super::InvalidLogoutToken;
use super::super::jws::Jws;
use super::fixture::Fixture;
use crate::jwk::VerificationKeys;

const KINDS: [&str; 4] = ["signature", "crypto", "key", "encryption"];

/// The key set that an IAM would publish for a vector.
fn published(vector: &Vector) -> Option<String> {
    let held = if vector.public.is_null() {
        &vector.private
    } else {
        &vector.public
    };
    let set = json!({ "keys": keys(held) }).to_string();
    VerificationKeys::parse(set.as_bytes())
        .is_ok()
        .then_some(set)
}

/// Whether the signature is accepted, for a token of any type.
fn is_verified(vector: &Vector) -> bool {
    let jws = Jws::of_any_type(&vector.token);
    let keys = published(vector).and_then(|set| VerificationKeys::parse(set.as_bytes()).ok());
    matches!((jws, keys), (Ok(jws), Some(keys)) if jws.verify(&keys).is_ok())
}

/// Whether the signature must be accepted: it has a supported asymmetric algorithm, and the header names its key.
fn is_supported(vector: &Vector) -> bool {
    let header: Option<Value> = vector
        .token
        .split_once('.')
        .and_then(|(header, _)| URL_SAFE_NO_PAD.decode(header).ok())
        .and_then(|header| serde_json::from_slice(&header).ok());
    let known = ["RS", "PS", "ES"]
        .map(|family| ["256", "384", "512"].map(|bits| format!("{family}{bits}")));
    header.is_some_and(|header| {
        header["kid"].is_string()
            && known.iter().flatten().any(|algorithm| header["alg"] == json!(algorithm))
            // Two vectors of RFC 7520 use a key with another algorithm than its own, or with an unknown one.
            && keys(&vector.public)
                .iter()
                .all(|key| key.get("alg").is_none_or(|alg| *alg == header["alg"]))
            // One string instead of two.
            && vector.public["key_ops"] != json!(["sign, verify"])
    })
}

#[test]
#[ignore = "needs the vectors of C2SP/wycheproof"]
fn exactly_the_valid_signatures_are_verified() {
    let (mut good, mut bad) = (0, 0);
    for kind in KINDS {
        for vector in vectors(kind) {
            // The strength of its key is the IAM's responsibility; tokens do not affect it.
            if vector.comment == "rejectsKeyWithRocaVulnerability" {
                continue;
            }
            let expected = vector.valid && is_supported(&vector);
            assert_eq!(
                is_verified(&vector),
                expected,
                "{} ({}): {}",
                vector.name,
                vector.group,
                vector.comment
            );
            *if expected { &mut good } else { &mut bad } += 1;
        }
    }
    assert!(good >= 30 && bad >= 500, "{good} and {bad}");
}

#[tokio::test]
#[ignore = "needs the vectors of C2SP/wycheproof"]
async fn no_vector_is_accepted_as_a_logout_token() {
    let fixture = Fixture::new();
    for kind in KINDS {
        for vector in vectors(kind) {
            if let Some(set) = published(&vector) {
                fixture.iam.publish(&set);
            }
            let why = fixture.refusal(&vector.token).await;
            let form = [
                InvalidLogoutToken::Malformed,
                InvalidLogoutToken::Type,
                InvalidLogoutToken::Critical,
            ];
            assert!(
                why.is_some_and(|why| form.contains(&why)),
                "{}: {why:?}",
                vector.name
            );
        }
    }
}
