//! Invalid keys, and keys for another purpose.

use base64::Engine as _;
use iam_adapters::name::Name as _;
use josekit::jwk::alg::{ec::EcCurve, ed::EdCurve};
use tempfile::tempdir;
use test_support::canary::Canary;

use super::*;
use crate::base64url::BASE64;

fn changed(jwk: &Value, member: &str, value: Value) -> Value {
    let mut jwk = jwk.clone();
    jwk[member] = value;
    jwk
}

fn without(jwk: &Value, member: &str) -> Value {
    let mut jwk = jwk.clone();
    jwk.as_object_mut().unwrap().remove(member);
    jwk
}

/// The error for this key as a signing key.
fn signing_error(jwk: &Value) -> String {
    let refused = SigningKey::from_file(&parsed(jwk).unwrap());
    refused.err().unwrap().to_string()
}

#[test]
fn generated_keys_are_usable() {
    for purpose in PURPOSES {
        assert!(usable(&generated(purpose)), "{purpose:?}");
    }
}

#[test]
fn key_without_a_required_member_is_refused() {
    for purpose in PURPOSES {
        let good = generated(purpose);
        for member in ["kid", "first_use", "alg", "kty"] {
            assert!(!usable(&without(&good, member)), "{purpose:?} {member}");
            for value in [json!(null), json!(1), json!(""), json!(["x"])] {
                let bad = changed(&good, member, value);
                assert!(!usable(&bad), "{purpose:?} {member}");
            }
        }
        for time in [
            "2026-01-01",
            "yesterday",
            "2026-01-01T00:00:00",
            "1800000000",
        ] {
            assert!(!usable(&changed(&good, "first_use", json!(time))), "{time}");
        }
    }
}

#[test]
fn kid_is_valid_in_a_header_and_in_a_file_name() {
    let good = generated(KeyPurpose::Sealing);
    let longest = "k".repeat(64);
    for kid in ["a", "A-z_0.9", &longest] {
        assert!(usable(&changed(&good, "kid", json!(kid))), "{kid}");
    }
    let too_long = "k".repeat(65);
    for kid in [
        "a\"b", "a\\b", "a/b", "../b", ".a", "..", "a b", "a\n", "a\0", "é", &too_long,
    ] {
        let refused = parsed(&changed(&good, "kid", json!(kid)));
        assert!(matches!(refused, Err(KeyError::Invalid(_))), "{kid}");
    }
}

#[test]
fn key_for_one_purpose_is_refused_for_the_other() {
    for purpose in PURPOSES {
        let file = parsed(&generated(purpose)).unwrap();
        let signs = matches!(purpose, KeyPurpose::Signing(_));
        assert_eq!(SigningKey::from_file(&file).is_ok(), signs);
        assert_eq!(SealingKey::from_file(&file).is_ok(), !signs);
    }
    // Another `alg` does not change the purpose.
    let secret = generated(KeyPurpose::Sealing);
    for algorithm in ["ES256", "EdDSA", "RS256", "HS256", "dir", "none", "a256gcm"] {
        assert!(!usable(&changed(&secret, "alg", json!(algorithm))));
    }
    for algorithm in Algorithm::ALL {
        let signing = generated(KeyPurpose::Signing(algorithm));
        for other in [
            "ES256", "EdDSA", "RS256", "A256GCM", "ES384", "none", "es256",
        ] {
            let relabelled = changed(&signing, "alg", json!(other));
            assert_eq!(usable(&relabelled), other == algorithm.name(), "{other}");
        }
    }
}

#[test]
fn key_with_another_use_is_refused() {
    for purpose in PURPOSES {
        let good = generated(purpose);
        let (usage, other) = match purpose {
            KeyPurpose::Signing(_) => ("sig", "enc"),
            KeyPurpose::Sealing => ("enc", "sig"),
        };
        assert!(usable(&changed(&good, "use", json!(usage))));
        let all = json!(["sign", "verify", "encrypt", "decrypt"]);
        assert!(usable(&changed(&good, "key_ops", all)));
        for (member, value) in [
            ("use", json!(other)),
            ("use", json!("")),
            ("use", json!([usage])),
            ("key_ops", json!([])),
            ("key_ops", json!(["verify"])),
            ("key_ops", json!(["decrypt"])),
            ("key_ops", json!("sign")),
        ] {
            let bad = changed(&good, member, value);
            assert!(!usable(&bad), "{purpose:?} {}", bad[member]);
        }
    }
}

#[test]
fn other_curves_are_refused() {
    for curve in [EcCurve::P384, EcCurve::P521, EcCurve::Secp256k1] {
        let jwk = with_file_members(&Jwk::generate_ec_key(curve).unwrap(), "ES256");
        assert!(signing_error(&jwk).contains("ES256 needs"), "{curve}");
        assert!(!usable(&changed(&jwk, "crv", json!("P-256"))), "{curve}");
    }
    let jwk = with_file_members(&Jwk::generate_ed_key(EdCurve::Ed448).unwrap(), "EdDSA");
    assert!(signing_error(&jwk).contains("EdDSA needs"));
    assert!(!usable(&changed(&jwk, "crv", json!("Ed25519"))));
    let good = generated(KeyPurpose::Signing(Algorithm::EdDsa));
    assert!(!usable(&changed(&good, "crv", json!("X25519"))));
}

#[test]
fn rsa_key_has_at_least_2048_bits() {
    for (bits, fine) in [(1_024, false), (2_040, false), (2_048, true)] {
        let jwk = with_file_members(&Jwk::generate_rsa_key(bits).unwrap(), "RS256");
        assert_eq!(usable(&jwk), fine, "{bits}");
        if !fine {
            assert!(signing_error(&jwk).contains("2048 bits"), "{bits}");
        }
    }
}

#[test]
fn sealing_key_is_32_bytes_that_are_not_all_equal() {
    let good = generated(KeyPurpose::Sealing);
    let mut almost = [0; 32];
    almost[31] = 1;
    for (secret, fine) in [
        (&almost[..], true),
        (&[0; 32], false),
        (&[255; 32], false),
        (&almost[1..], false),
        (&[almost, almost].concat(), false),
        (&[], false),
    ] {
        let jwk = changed(&good, "k", json!(BASE64.encode(secret)));
        assert_eq!(usable(&jwk), fine, "{secret:?}");
    }
    assert!(!usable(&changed(&good, "k", json!("not base64!"))));
    assert!(!usable(&without(&good, "k")));
}

#[test]
fn public_key_alone_is_refused() {
    for algorithm in Algorithm::ALL {
        let good = generated(KeyPurpose::Signing(algorithm));
        assert!(!usable(&without(&good, "d")), "{algorithm:?}");
        assert!(!usable(&changed(&good, "d", json!(""))), "{algorithm:?}");
        assert!(!usable(&changed(&good, "d", json!("AA"))), "{algorithm:?}");
    }
}

#[test]
fn private_key_of_the_wrong_length_is_refused() {
    for algorithm in [Algorithm::Es256, Algorithm::EdDsa] {
        let good = generated(KeyPurpose::Signing(algorithm));
        let d = BASE64.decode(good["d"].as_str().unwrap()).unwrap();
        for other in [
            &d[1..],
            &[&d[..], &[0]].concat(),
            &[&[0], &d[..]].concat(),
            &[&[1], &d[..]].concat(),
            &[255; 32],
            &[0; 32],
            &[255; 4096],
        ] {
            let jwk = changed(&good, "d", json!(BASE64.encode(other)));
            assert!(!usable(&jwk), "{algorithm:?}, {} bytes", other.len());
        }
    }
}

#[test]
fn private_key_that_does_not_match_the_public_key_is_refused() {
    for (algorithm, public) in [
        (Algorithm::Es256, &["x", "y"][..]),
        (Algorithm::EdDsa, &["x"]),
        (Algorithm::Rs256, &["n"]),
    ] {
        let purpose = KeyPurpose::Signing(algorithm);
        let (good, other) = (generated(purpose), generated(purpose));
        let mut crossed = good.clone();
        for member in public {
            let one = changed(&good, member, other[*member].clone());
            assert!(!usable(&one), "{algorithm:?} {member}");
            assert!(!usable(&without(&good, member)), "{algorithm:?} {member}");
            crossed[*member] = other[*member].clone();
        }
        assert!(!usable(&crossed), "{algorithm:?}");
    }
    // A point that is not on the curve.
    let good = generated(KeyPurpose::Signing(Algorithm::Es256));
    let origin = BASE64.encode([0; 32]);
    let off_curve = changed(&changed(&good, "x", json!(origin)), "y", json!(origin));
    assert!(!usable(&off_curve));
    let rsa = generated(KeyPurpose::Signing(Algorithm::Rs256));
    for member in ["e", "d", "p", "q", "dp", "dq", "qi"] {
        assert!(!usable(&changed(&rsa, member, json!("AQ"))), "{member}");
    }
}

#[test]
fn invalid_file_is_reported_by_its_name_only() {
    const SECRET: &str = "canary-in-a-key-file-0123456789a";
    let canary = Canary::new("what a key file holds", SECRET);
    let secret = json!(BASE64.encode(SECRET));
    let sealing = json!({
        "kty": "oct", "kid": "a", "alg": "A256GCM", "use": "enc", "k": secret,
        "first_use": "2026-01-01T00:00:00Z",
    });
    let signing = json!({
        "kty": "EC", "crv": "P-256", "kid": "a", "alg": "ES256", "d": secret, "x": secret,
        "y": secret, "first_use": "2026-01-01T00:00:00Z",
    });
    for text in [
        format!(r#"{{"kty":"oct","k":"{SECRET}"#),
        SECRET.to_owned(),
        changed(&sealing, "first_use", json!(SECRET)).to_string(),
        changed(&sealing, "alg", json!(SECRET)).to_string(),
        changed(&sealing, "kid", json!(format!("{SECRET} "))).to_string(),
        changed(&sealing, "k", json!(&BASE64.encode(SECRET)[..20])).to_string(),
        changed(&sealing, "kty", json!(SECRET)).to_string(),
        changed(&signing, "crv", json!(SECRET)).to_string(),
        changed(&signing, "alg", json!("A256GCM")).to_string(),
        signing.to_string(),
    ] {
        let dir = tempdir().unwrap();
        put(dir.path(), "broken.jwk", &Value::Null);
        std::fs::write(dir.path().join("broken.jwk"), &text).unwrap();
        for refused in [
            load_signing(dir.path()).err().unwrap(),
            load_sealing(dir.path()).err().unwrap(),
        ] {
            let shown = format!("{refused} {refused:?}");
            assert!(shown.contains("broken.jwk"), "{text}: {shown}");
            assert!(!canary.is_in(&shown), "{text}: {shown}");
        }
    }
}

#[test]
fn errors_contain_no_key_material() {
    for purpose in PURPOSES {
        let jwk = changed(&generated(purpose), "alg", json!("none"));
        let file = parsed(&jwk).unwrap();
        let (signing, sealing) = (SigningKey::from_file(&file), SealingKey::from_file(&file));
        let shown = format!("{signing:?} {sealing:?}");
        for name in PRIVATE.iter().take(8) {
            let secret = jwk.get(*name).and_then(Value::as_str);
            assert!(secret.is_none_or(|secret| !shown.contains(secret)));
        }
    }
}
