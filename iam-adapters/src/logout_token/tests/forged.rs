//! Tokens of an attacker who has the public data of the IAM: its key set, and valid tokens.

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::super::InvalidLogoutToken as Why;
use super::fixture::{Fixture, claims, header};

/// The order of P-256 (SEC 2 section 2.4.2), and the prime of its field.
const ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
const PRIME: &str = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn signing_input(header: &Value, claims: &Value) -> String {
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    format!("{header}.{claims}")
}

#[tokio::test]
async fn public_data_as_an_hmac_secret_is_refused() {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let point = key.public_key().as_ref();
    let der: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
    let der = der.as_ref();
    let base64 = STANDARD.encode(der);
    let (x, y) = point[1..].split_at(32);
    let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
    let jwk = json!({"kty": "EC", "crv": "P-256", "kid": "k", "x": x, "y": y});
    let set = json!({ "keys": [jwk] }).to_string();
    let fixture = Fixture::new();
    fixture.iam.publish(&set);
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n{}\n-----END PUBLIC KEY-----\n",
        &base64[..64],
        &base64[64..]
    );
    for secret in [
        &b""[..],
        &[0],
        &[0; 32],
        pem.as_bytes(),
        pem.trim_end().as_bytes(),
        base64.as_bytes(),
        der,
        point,
        &point[1..],
        x.as_bytes(),
        jwk.to_string().as_bytes(),
        set.as_bytes(),
        b"k",
    ] {
        for (name, algorithm) in [
            ("HS256", hmac::HMAC_SHA256),
            ("HS384", hmac::HMAC_SHA384),
            ("HS512", hmac::HMAC_SHA512),
        ] {
            let mut header = header(&fixture);
            header["kid"] = json!("k");
            // With the real and with a false `alg`.
            for claimed in [name, "ES256"] {
                header["alg"] = json!(claimed);
                let signed = signing_input(&header, &claims(&fixture));
                let mac = hmac::sign(&hmac::Key::new(algorithm, secret), signed.as_bytes());
                let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac));
                let expected = if claimed == name {
                    Why::Algorithm
                } else {
                    Why::Signature
                };
                assert_eq!(
                    fixture.refusal(&token).await,
                    Some(expected),
                    "{name} {claimed}"
                );
            }
        }
    }
    // A signature with the right key in the format of X.509, not of JOSE.
    let mut header = header(&fixture);
    header["kid"] = json!("k");
    let signed = signing_input(&header, &claims(&fixture));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    assert_eq!(fixture.refusal(&token).await, Some(Why::Signature));
}

#[tokio::test]
async fn invalid_signature_values_are_refused() {
    let fixture = Fixture::new();
    let good = fixture.sign(&header(&fixture), &claims(&fixture));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let (zero, one) = (vec![0; 32], [&[0; 31][..], &[1]].concat());
    let (order, prime) = (bytes(ORDER), bytes(PRIME));
    let mut before = order.clone();
    before[31] -= 1;
    let special = [&zero, &one, &before, &order, &prime, &vec![255; 32]];
    let (r, s) = signature.split_at(32);
    let mut wrong: Vec<Vec<u8>> = vec![
        [&[0], &signature[..]].concat(),
        [&signature[..], &[0]].concat(),
        [&[0], r, &[0], s].concat(),
        [s, r].concat(),
        signature[..63].to_vec(),
        r.to_vec(),
        [r, s, r].concat(),
        vec![0; 4_096],
    ];
    for value in special {
        wrong.push([r, value].concat());
        wrong.push([value, s].concat());
        wrong.extend(special.map(|other| [&value[..], other].concat()));
    }
    for signature in wrong {
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(&signature));
        assert_eq!(
            fixture.refusal(&token).await,
            Some(Why::Signature),
            "{signature:?}"
        );
    }
    assert_eq!(fixture.refusal(&good).await, None);
}

#[tokio::test]
async fn time_that_is_no_whole_number_of_seconds_is_refused() {
    let fixture = Fixture::new();
    let (header, claims) = (header(&fixture).to_string(), claims(&fixture).to_string());
    for member in ["iat", "exp"] {
        let begin = claims.find(&format!("\"{member}\":")).unwrap() + member.len() + 3;
        let end = begin + claims[begin..].find([',', '}']).unwrap();
        for number in [
            "1e400",
            "1e9",
            "-1",
            "-0",
            "1800000000.0",
            "18446744073709551616",
            "0x1",
            "01",
            "NaN",
            "true",
            "{}",
        ] {
            let claims = [&claims[..begin], number, &claims[end..]].concat();
            let token = fixture.signer.sign(&header, &claims).unwrap();
            assert_eq!(
                fixture.refusal(&token).await,
                Some(Why::Claims),
                "{member} {number}"
            );
        }
    }
}
