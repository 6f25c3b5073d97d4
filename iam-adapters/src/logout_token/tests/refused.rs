//! Invalid tokens, each with the reason of its refusal.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use test_support::json::without;

use super::super::InvalidLogoutToken as Why;
use super::super::TOKEN_BYTES_MAX;
use super::fixture::{EVENT, Fixture, claims, header};
use crate::scripted_adapter::{CLIENT, ISSUER};

#[tokio::test]
async fn token_with_a_wrong_claim_is_refused_with_its_reason() {
    let fixture = Fixture::new();
    let now = fixture.now();
    for (member, value, why) in [
        ("iss", json!("https://iam.test/realms/other"), Why::Issuer),
        ("iss", json!(format!("{ISSUER}/")), Why::Issuer),
        ("iss", json!(ISSUER.to_uppercase()), Why::Issuer),
        ("iss", json!([ISSUER]), Why::Claims),
        ("aud", json!("another"), Why::Audience),
        ("aud", json!(format!("{CLIENT} ")), Why::Audience),
        ("aud", json!(["another", ""]), Why::Audience),
        ("aud", json!([]), Why::Audience),
        ("aud", json!({CLIENT: true}), Why::Claims),
        ("aud", json!(null), Why::Claims),
        ("iat", json!(now - 121), Why::Time),
        ("iat", json!(0), Why::Time),
        ("iat", json!(now + 61), Why::Time),
        ("iat", json!(u64::MAX), Why::Time),
        ("iat", json!(now.to_string()), Why::Claims),
        ("iat", json!(-1), Why::Claims),
        ("iat", json!(1.8e9), Why::Claims),
        ("iat", json!(null), Why::Claims),
        ("exp", json!(now), Why::Expired),
        ("exp", json!(0), Why::Expired),
        ("exp", json!((now + 60).to_string()), Why::Claims),
        ("exp", json!(null), Why::Claims),
        ("nbf", json!(now + 61), Why::Expired),
        ("nbf", json!("0"), Why::Claims),
        ("events", json!({}), Why::Event),
        ("events", json!({"urn:another": {}}), Why::Event),
        ("events", json!({EVENT.to_uppercase(): {}}), Why::Event),
        ("events", json!({EVENT: null}), Why::Claims),
        ("events", json!({EVENT: []}), Why::Claims),
        ("events", json!({EVENT: true}), Why::Claims),
        ("events", json!([EVENT]), Why::Claims),
        ("events", json!(EVENT), Why::Claims),
        ("nonce", json!("n"), Why::Nonce),
        ("nonce", json!(null), Why::Nonce),
        ("jti", json!(""), Why::Claims),
        ("jti", json!(1), Why::Claims),
        ("sid", json!(""), Why::Claims),
        ("sid", json!(7), Why::Claims),
        ("sid", json!(null), Why::Claims),
        ("sub", json!(""), Why::Claims),
        ("sub", json!(["s"]), Why::Claims),
    ] {
        let mut claims = claims(&fixture);
        claims[member] = value.clone();
        let token = fixture.sign(&header(&fixture), &claims);
        assert_eq!(
            fixture.refusal(&token).await,
            Some(why),
            "{member}: {value}"
        );
    }
}

#[tokio::test]
async fn token_without_a_required_claim_is_refused() {
    let fixture = Fixture::new();
    for (members, why) in [
        (&["iss"][..], Why::Claims),
        (&["aud"], Why::Claims),
        (&["iat"], Why::Claims),
        (&["jti"], Why::Claims),
        (&["events"], Why::Claims),
        (&["sid", "sub"], Why::NoSubject),
    ] {
        let claims = members.iter().copied().fold(claims(&fixture), without);
        let token = fixture.sign(&header(&fixture), &claims);
        assert_eq!(fixture.refusal(&token).await, Some(why), "{members:?}");
    }
}

#[tokio::test]
async fn token_with_a_wrong_header_is_refused_with_its_reason() {
    let fixture = Fixture::new();
    for (member, value, why) in [
        ("typ", json!("JWT"), Why::Type),
        ("typ", json!("at+jwt"), Why::Type),
        ("typ", json!("Logout"), Why::Type),
        ("typ", json!(""), Why::Type),
        ("typ", json!(null), Why::Type),
        ("typ", json!(1), Why::Malformed),
        ("alg", json!("none"), Why::Algorithm),
        ("alg", json!("None"), Why::Algorithm),
        ("alg", json!("HS256"), Why::Algorithm),
        ("alg", json!("RS256"), Why::Algorithm),
        ("alg", json!("ES384"), Why::Algorithm),
        ("alg", json!("es256"), Why::Algorithm),
        ("alg", json!(""), Why::Algorithm),
        ("alg", json!(["ES256"]), Why::Malformed),
        ("kid", json!("another"), Why::UnknownKey),
        ("kid", json!(""), Why::UnknownKey),
        ("kid", json!(null), Why::Malformed),
        ("crit", json!(["exp"]), Why::Critical),
        ("crit", json!([]), Why::Critical),
        ("crit", json!(null), Why::Critical),
        ("b64", json!(false), Why::Critical),
        ("b64", json!(true), Why::Critical),
    ] {
        let mut header = header(&fixture);
        header[member] = value.clone();
        let token = fixture.sign(&header, &claims(&fixture));
        assert_eq!(
            fixture.refusal(&token).await,
            Some(why),
            "{member}: {value}"
        );
    }
    for (member, why) in [
        ("typ", Why::Type),
        ("alg", Why::Malformed),
        ("kid", Why::Malformed),
    ] {
        let header = without(header(&fixture), member);
        let token = fixture.sign(&header, &claims(&fixture));
        assert_eq!(fixture.refusal(&token).await, Some(why), "{member}");
    }
}

#[tokio::test]
async fn repeated_member_is_refused() {
    let fixture = Fixture::new();
    let (header, claims) = (header(&fixture), claims(&fixture));
    let twice = |object: &Value, member: &str| {
        let text = object.to_string();
        let again = format!("{}:{}", json!(member), object[member]);
        format!("{},{again}}}", text.strip_suffix('}').unwrap())
    };
    for member in ["alg", "kid", "typ"] {
        let token = fixture
            .signer
            .sign(&twice(&header, member), &claims.to_string());
        let why = fixture.refusal(&token.unwrap()).await;
        assert_eq!(why, Some(Why::Malformed), "{member}");
    }
    for member in ["iss", "aud", "iat", "exp", "jti", "sub", "sid", "events"] {
        let token = fixture
            .signer
            .sign(&header.to_string(), &twice(&claims, member));
        let why = fixture.refusal(&token.unwrap()).await;
        assert_eq!(why, Some(Why::Claims), "{member}");
    }
    let event = format!("{{\"{EVENT}\":{{}}}}");
    let twice = format!("{{\"{EVENT}\":{{}},\"{EVENT}\":{{}}}}");
    let claims = claims.to_string();
    assert!(claims.contains(&event), "{claims}");
    let token = fixture
        .signer
        .sign(&header.to_string(), &claims.replace(&event, &twice));
    assert_eq!(fixture.refusal(&token.unwrap()).await, Some(Why::Claims));
}

#[tokio::test]
async fn only_a_signature_of_the_named_key_over_the_same_bytes_is_accepted() {
    let fixture = Fixture::new();
    let (one, other) = (
        fixture.sign(&header(&fixture), &claims(&fixture)),
        fixture.sign(&header(&fixture), &claims(&fixture)),
    );
    let (signed, _) = one.rsplit_once('.').unwrap();
    let (_, others) = other.rsplit_once('.').unwrap();
    let attacker = Fixture::new();
    let mut with_own_key = header(&fixture);
    with_own_key["jwk"] = json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"});
    with_own_key["jku"] = json!("http://evil.test/keys");
    for token in [
        format!("{signed}."),
        format!("{signed}.{others}"),
        attacker.sign(&header(&fixture), &claims(&fixture)),
        attacker.sign(&with_own_key, &claims(&fixture)),
    ] {
        assert_eq!(
            fixture.refusal(&token).await,
            Some(Why::Signature),
            "{token}"
        );
    }
    // A key in the header is ignored, also if the signature is valid.
    fixture
        .verify(&with_own_key, &claims(&fixture))
        .await
        .unwrap();
}

#[tokio::test]
async fn token_that_is_no_compact_jws_is_refused() {
    let fixture = Fixture::new();
    let good = fixture.sign(&header(&fixture), &claims(&fixture));
    let [header, payload, signature] = [0, 1, 2].map(|at| good.split('.').nth(at).unwrap());
    for token in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        format!("{header}.{payload}"),
        format!(".{payload}.{signature}"),
        format!("{good}."),
        format!("{good}.{signature}"),
        format!("{header}.{payload}.{signature}.{signature}.{signature}"),
        format!("{good}="),
        format!(" {good}"),
        format!("{good}\n"),
        format!("{header}=.{payload}.{signature}"),
        format!("{}.{payload}.{signature}", URL_SAFE_NO_PAD.encode("[]")),
        format!("{}.{payload}.{signature}", URL_SAFE_NO_PAD.encode("{}")),
        format!("{}.{payload}.{signature}", URL_SAFE_NO_PAD.encode("{")),
        "é.é.é".to_owned(),
    ] {
        assert_eq!(
            fixture.refusal(&token).await,
            Some(Why::Malformed),
            "{token}"
        );
    }
    let header = super::fixture::header(&fixture).to_string();
    for payload in ["", "[]", "null", "{", "{\"iss\":1}", "\u{feff}{}"] {
        let token = fixture.signer.sign(&header, payload).unwrap();
        assert_eq!(
            fixture.refusal(&token).await,
            Some(Why::Claims),
            "{payload}"
        );
    }
    let long = "A".repeat(TOKEN_BYTES_MAX + 1);
    assert_eq!(fixture.refusal(&long).await, Some(Why::TooLong));
    let longest = &long[..TOKEN_BYTES_MAX];
    assert_eq!(fixture.refusal(longest).await, Some(Why::Malformed));
}
