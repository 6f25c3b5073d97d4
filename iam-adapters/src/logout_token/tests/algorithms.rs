//! Which keys are used, and for which algorithm.

use std::sync::LazyLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaEncoding,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::super::InvalidLogoutToken as Why;
use super::fixture::{Fixture, claims};
use crate::jwk::{NoKeys, VerificationKeys};

/// Generated once, because it is slow.
static RSA: LazyLock<RsaKeyPair> =
    LazyLock::new(|| RsaKeyPair::generate(KeySize::Rsa2048).unwrap());

const RSA_ALGORITHMS: [(&str, &dyn RsaEncoding); 6] = [
    ("RS256", &signature::RSA_PKCS1_SHA256),
    ("RS384", &signature::RSA_PKCS1_SHA384),
    ("RS512", &signature::RSA_PKCS1_SHA512),
    ("PS256", &signature::RSA_PSS_SHA256),
    ("PS384", &signature::RSA_PSS_SHA384),
    ("PS512", &signature::RSA_PSS_SHA512),
];

const CURVES: [(&str, &str, &EcdsaSigningAlgorithm); 3] = [
    (
        "ES256",
        "P-256",
        &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
    ),
    (
        "ES384",
        "P-384",
        &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
    ),
    (
        "ES512",
        "P-521",
        &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
    ),
];

type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A key of each algorithm: its name, its JWK without `alg`, and how it signs.
fn keys() -> Vec<(&'static str, Value, Sign)> {
    let components = PublicKeyComponents::<Vec<u8>>::from(RSA.public_key());
    let rsa = json!({
        "kty": "RSA",
        "kid": "k",
        "n": URL_SAFE_NO_PAD.encode(&components.n),
        "e": URL_SAFE_NO_PAD.encode(&components.e),
    });
    let mut keys: Vec<(_, _, Sign)> = Vec::new();
    for (name, encoding) in RSA_ALGORITHMS {
        let sign = move |message: &[u8]| {
            let mut signature = vec![0; RSA.public_modulus_len()];
            RSA.sign(encoding, &SystemRandom::new(), message, &mut signature)
                .unwrap();
            signature
        };
        keys.push((name, rsa.clone(), Box::new(sign)));
    }
    for (name, curve, algorithm) in CURVES {
        let pair = EcdsaKeyPair::generate(algorithm).unwrap();
        let (x, y) = {
            let point = &pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y))
        };
        let jwk = json!({"kty": "EC", "kid": "k", "crv": curve, "x": x, "y": y});
        let sign = move |message: &[u8]| {
            let signature = pair.sign(&SystemRandom::new(), message).unwrap();
            signature.as_ref().to_vec()
        };
        keys.push((name, jwk, Box::new(sign)));
    }
    let pair = Ed25519KeyPair::generate().unwrap();
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let jwk = json!({"kty": "OKP", "kid": "k", "crv": "Ed25519", "x": x});
    let sign = move |message: &[u8]| pair.sign(message).as_ref().to_vec();
    keys.push(("EdDSA", jwk, Box::new(sign)));
    keys
}

fn set(keys: &[&Value]) -> Result<VerificationKeys, NoKeys> {
    VerificationKeys::parse(json!({ "keys": keys }).to_string().as_bytes())
}

fn token(fixture: &Fixture, algorithm: &str, sign: &Sign) -> String {
    let header = json!({"alg": algorithm, "typ": "logout+jwt", "kid": "k"});
    let [header, claims] =
        [header, claims(fixture)].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{claims}");
    format!(
        "{signed}.{}",
        URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()))
    )
}

fn with(jwk: &Value, member: &str, value: Value) -> Value {
    let mut jwk = jwk.clone();
    jwk[member] = value;
    jwk
}

fn decoded(value: &Value) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(value.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn each_key_verifies_only_its_own_algorithm() {
    let keys = keys();
    for (own, jwk, sign) in &keys {
        let fixture = Fixture::new();
        let published = with(jwk, "alg", json!(own));
        fixture.iam.publish(&json!({ "keys": [published] }));
        let good = fixture.tokens.verify(&token(&fixture, own, sign)).await;
        assert!(good.is_ok(), "{own}: {good:?}");
        for (other, _, others) in &keys {
            if other != own {
                // The own key with another `alg`, and another key with the own `alg`.
                let renamed = fixture.refusal(&token(&fixture, other, sign)).await;
                assert_eq!(renamed, Some(Why::Algorithm), "{own} as {other}");
                let another = fixture.refusal(&token(&fixture, own, others)).await;
                assert_eq!(another, Some(Why::Signature), "{other} as {own}");
            }
        }
    }
}

#[tokio::test]
async fn key_without_alg_has_the_default_algorithm_of_its_type() {
    for (own, jwk, sign) in keys() {
        let fixture = Fixture::new();
        fixture.iam.publish(&json!({ "keys": [jwk] }));
        let why = fixture.refusal(&token(&fixture, own, &sign)).await;
        let other_rsa = own.starts_with(['R', 'P']) && own != "RS256";
        assert_eq!(why, other_rsa.then_some(Why::Algorithm), "{own}");
    }
}

#[test]
fn keys_that_cannot_verify_signatures_are_left_out() {
    let keys = keys();
    let jwk = |algorithm: &str| {
        let found = keys.iter().find(|(name, _, _)| *name == algorithm);
        found.unwrap().1.clone()
    };
    let (rsa, ec, okp) = (jwk("RS256"), jwk("ES256"), jwk("EdDSA"));
    let no_kid = {
        let mut jwk = ec.clone();
        jwk.as_object_mut().unwrap().remove("kid");
        jwk
    };
    let short = URL_SAFE_NO_PAD.encode([0xc1; 128]);
    let nearly = URL_SAFE_NO_PAD.encode([&[0x7f][..], &[0xc1; 255]].concat());
    // The same point, split at another position.
    let shifted = {
        let mut point = decoded(&ec["x"]);
        point.extend(decoded(&ec["y"]));
        let (x, y) = point.split_at(31);
        let jwk = with(&ec, "x", json!(URL_SAFE_NO_PAD.encode(x)));
        with(&jwk, "y", json!(URL_SAFE_NO_PAD.encode(y)))
    };
    let huge = URL_SAFE_NO_PAD.encode([0xc1; 1025]);
    for unusable in [
        json!({"kty": "oct", "kid": "k", "alg": "HS256", "k": "c2VjcmV0"}),
        json!({"kty": "RSA", "kid": "k"}),
        json!({"kty": "ML", "kid": "k"}),
        json!("k"),
        with(&rsa, "use", json!("enc")),
        with(&rsa, "alg", json!("RSA-OAEP")),
        with(&rsa, "alg", json!("HS256")),
        with(&rsa, "alg", json!("none")),
        with(&rsa, "alg", json!("RS1")),
        with(&rsa, "n", json!(short)),
        with(&rsa, "n", json!(nearly)),
        with(&rsa, "n", json!(huge)),
        with(&rsa, "n", json!("")),
        with(&rsa, "n", json!(7)),
        with(&ec, "key_ops", json!(["sign"])),
        with(&ec, "alg", json!("ES384")),
        with(&ec, "alg", json!("HS256")),
        with(&ec, "crv", json!("P-384")),
        with(&ec, "crv", json!("secp256k1")),
        with(&ec, "x", ec["y"].clone()),
        with(&ec, "y", json!(null)),
        with(&okp, "crv", json!("X25519")),
        with(&okp, "alg", json!("ES256")),
        with(&okp, "x", json!("AA")),
        no_kid,
        shifted,
    ] {
        assert_eq!(set(&[&unusable]).err(), Some(NoKeys), "{unusable}");
        // The other keys are kept.
        let other = with(&okp, "kid", json!("other"));
        let kept = set(&[&unusable, &other]).expect("the other");
        assert!(kept.key("other").is_some() && kept.key("k").is_none());
    }
    let both = set(&[&ec, &okp, &with(&rsa, "kid", json!("r"))]).expect("one of them");
    assert!(both.key("k").is_none(), "two keys with this id");
    assert!(both.key("r").is_some());
    for no_set in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#, "<html>"] {
        let read = VerificationKeys::parse(no_set.as_bytes());
        assert_eq!(read.err(), Some(NoKeys), "{no_set}");
    }
}
