//! What is no key, or no key for its purpose.

use base64::Engine as _;
use josekit::jwk::alg::{ec::EcCurve, ed::EdCurve};

use super::*;
use crate::gateway::BASE64;

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

/// What the operator reads who has put this key into the folder.
fn why_it_does_not_sign(jwk: &Value) -> String {
    parsed(jwk).unwrap().to_signing().err().unwrap().to_string()
}

#[test]
fn the_keys_that_the_others_are_made_from_are_good() {
    for purpose in PURPOSES {
        assert!(usable(&generated(purpose)), "{purpose:?}");
    }
}

#[test]
fn a_key_names_itself_and_its_first_use() {
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
fn a_kid_can_stand_in_a_header_and_in_a_file_name() {
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
fn a_key_for_one_purpose_is_none_for_the_other() {
    for purpose in PURPOSES {
        let file = parsed(&generated(purpose)).unwrap();
        let signs = matches!(purpose, KeyPurpose::Signing(_));
        assert_eq!(file.to_signing().is_ok(), signs);
        assert_eq!(file.to_sealing().is_ok(), !signs);
    }
    // Neither does another `alg` make one of it.
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
fn a_key_that_says_it_is_for_something_else_is_refused() {
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
        let jwk = dressed(&Jwk::generate_ec_key(curve).unwrap(), "ES256");
        assert!(
            why_it_does_not_sign(&jwk).contains("ES256 needs"),
            "{curve}"
        );
        assert!(!usable(&changed(&jwk, "crv", json!("P-256"))), "{curve}");
    }
    let jwk = dressed(&Jwk::generate_ed_key(EdCurve::Ed448).unwrap(), "EdDSA");
    assert!(why_it_does_not_sign(&jwk).contains("EdDSA needs"));
    assert!(!usable(&changed(&jwk, "crv", json!("Ed25519"))));
    let good = generated(KeyPurpose::Signing(Algorithm::EdDsa));
    assert!(!usable(&changed(&good, "crv", json!("X25519"))));
}

#[test]
fn an_rsa_key_has_at_least_2048_bits() {
    for (bits, fine) in [(1_024, false), (2_040, false), (2_048, true)] {
        let jwk = dressed(&Jwk::generate_rsa_key(bits).unwrap(), "RS256");
        assert_eq!(usable(&jwk), fine, "{bits}");
        if !fine {
            assert!(why_it_does_not_sign(&jwk).contains("2048 bits"), "{bits}");
        }
    }
}

#[test]
fn a_sealing_key_is_32_bytes_that_are_not_all_alike() {
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
fn a_public_half_alone_does_not_sign() {
    for algorithm in Algorithm::ALL {
        let good = generated(KeyPurpose::Signing(algorithm));
        assert!(!usable(&without(&good, "d")), "{algorithm:?}");
        assert!(!usable(&changed(&good, "d", json!(""))), "{algorithm:?}");
        assert!(!usable(&changed(&good, "d", json!("AA"))), "{algorithm:?}");
    }
}

#[test]
fn a_private_half_that_is_too_long_or_too_short_is_refused() {
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
fn halves_that_do_not_belong_together_are_refused() {
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
    // Not on the curve at all.
    let good = generated(KeyPurpose::Signing(Algorithm::Es256));
    let origin = BASE64.encode([0; 32]);
    let nowhere = changed(&changed(&good, "x", json!(origin)), "y", json!(origin));
    assert!(!usable(&nowhere));
    let rsa = generated(KeyPurpose::Signing(Algorithm::Rs256));
    for member in ["e", "d", "p", "q", "dp", "dq", "qi"] {
        assert!(!usable(&changed(&rsa, member, json!("AQ"))), "{member}");
    }
}

#[test]
fn no_error_shows_key_material() {
    for purpose in PURPOSES {
        let jwk = changed(&generated(purpose), "alg", json!("none"));
        let file = parsed(&jwk).unwrap();
        let shown = format!("{:?} {:?}", file.to_signing(), file.to_sealing());
        for name in PRIVATE.iter().take(8) {
            let secret = jwk.get(*name).and_then(Value::as_str);
            assert!(secret.is_none_or(|secret| !shown.contains(secret)));
        }
    }
}
