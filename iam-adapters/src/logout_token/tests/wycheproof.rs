//! Wycheproof's vectors before the one who verifies logout tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use test_support::wycheproof::{Vector, keys, vectors};

use super::super::jws::Jws;
use super::super::{InvalidLogoutToken, VerificationKeys};
use super::house::House;

const KINDS: [&str; 4] = ["signature", "crypto", "key", "encryption"];

/// As an IAM would publish what the receiver has.
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

/// Whether the signature is found good, whatever the token is for.
fn is_verified(vector: &Vector) -> bool {
    let jws = Jws::of_any_type(&vector.token);
    let keys = published(vector).and_then(|set| VerificationKeys::parse(set.as_bytes()).ok());
    matches!((jws, keys), (Ok((jws, _)), Some(keys)) if jws.verify(&keys).is_ok())
}

/// Whether it has to be verified: signed with a private key by an algorithm that is known here, and naming its key,
/// as every IAM's token does.
fn is_for_us(vector: &Vector) -> bool {
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
            // Two vectors of RFC 7520 lend a key another algorithm than its own, or one that nobody knows.
            && keys(&vector.public)
                .iter()
                .all(|key| key.get("alg").is_none_or(|alg| *alg == header["alg"]))
            // One string where there should be two.
            && vector.public["key_ops"] != json!(["sign, verify"])
    })
}

#[test]
fn every_signature_that_is_good_is_verified_and_no_other() {
    let (mut good, mut bad) = (0, 0);
    for kind in KINDS {
        for vector in vectors(kind).into_iter().flatten() {
            // The IAM's key is as weak as the IAM likes; nothing that a token says makes it so.
            if vector.comment == "rejectsKeyWithRocaVulnerability" {
                continue;
            }
            let due = vector.valid && is_for_us(&vector);
            assert_eq!(
                is_verified(&vector),
                due,
                "{} ({}): {}",
                vector.name,
                vector.group,
                vector.comment
            );
            *if due { &mut good } else { &mut bad } += 1;
        }
    }
    assert!(
        good + bad == 0 || good >= 30 && bad >= 500,
        "{good} and {bad}"
    );
}

#[tokio::test]
async fn none_of_all_the_tokens_is_a_logout_token() {
    let house = House::new();
    for kind in KINDS {
        for vector in vectors(kind).into_iter().flatten() {
            if let Some(set) = published(&vector) {
                house.says(move || Ok(VerificationKeys::parse(set.as_bytes()).expect("keys")));
            }
            let why = house.why(&vector.token).await;
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
