//! Wycheproof's keys as key files.

use test_support::wycheproof::{keys, vectors};

use super::*;

/// Whether the key is valid for signing according to the vectors.
fn is_good(jwk: &Value, group: &str) -> bool {
    let bad = [
        "keysize_too_small",
        "exponentOne",
        "wrong_algorithm",
        "invalid_algorithm",
        "invalid_use",
        "invalid_point",
    ];
    let suits = match jwk["kty"].as_str() {
        Some("EC") => jwk["crv"] == "P-256" && jwk["alg"] == "ES256",
        Some("RSA") => jwk["alg"] == "RS256",
        _ => false,
    };
    let operations = jwk["key_ops"].as_array();
    jwk.get("d").is_some()
        && suits
        && !bad.iter().any(|bad| group.starts_with(bad))
        && jwk.get("use").is_none_or(|usage| usage == "sig")
        && operations.is_none_or(|all| all.contains(&json!("sign")))
}

#[test]
#[ignore = "needs the vectors of C2SP/wycheproof"]
fn exactly_the_valid_keys_of_wycheproof_sign_and_none_seals() {
    let (mut good, mut bad) = (0, 0);
    for kind in ["key", "signature", "crypto", "encryption"] {
        for vector in vectors(kind) {
            // How a modulus was generated is not checked: the operator generates the key.
            if vector.comment == "rejectsKeyWithRocaVulnerability" {
                continue;
            }
            for half in [&vector.private, &vector.public] {
                if half.get("keys").is_some() {
                    assert!(parsed(half).is_err(), "{}: a set is no key", vector.name);
                }
                for key in keys(half) {
                    let mut jwk = key.clone();
                    jwk["kid"] = json!("k1");
                    jwk["first_use"] = json!("2026-01-01T00:00:00Z");
                    let file = parsed(&jwk);
                    let signing = file.as_ref().map(SigningKey::from_file);
                    let signs = matches!(&signing, Ok(Ok(_)));
                    if let Ok(Ok(key)) = signing {
                        let published = PRIVATE.map(|name| key.public_jwk().parameter(name));
                        assert_eq!(published, [None; 9], "{}: {jwk}", vector.name);
                    }
                    let seals = file.is_ok_and(|file| SealingKey::from_file(&file).is_ok());
                    let expected = is_good(key, &vector.group);
                    assert_eq!(signs, expected, "{}: {jwk}", vector.name);
                    assert!(!seals, "{}: {jwk}", vector.name);
                    *if expected { &mut good } else { &mut bad } += 1;
                }
            }
        }
    }
    assert!(good >= 100 && bad >= 100, "{good} and {bad}");
}
