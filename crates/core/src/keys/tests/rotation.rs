//! When a key is used and honoured, and what is published of it.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use iam_adapters::name::Name as _;

use super::*;
use crate::base64url::BASE64;

fn sealing(kid: &str, first_use: i64) -> SealingKey {
    let secret: Vec<u8> = (0..32).collect();
    SealingKey::new(&secret, kid, time(first_use)).unwrap()
}

fn three() -> KeySet<SealingKey> {
    let keys = [("b", 200), ("c", 300), ("a", 100)];
    KeySet::new(keys.map(|(kid, first_use)| sealing(kid, first_use)).into()).unwrap()
}

#[test]
fn key_in_use_is_the_one_with_the_latest_first_use_in_the_past() {
    let keys = three();
    for (now, kid) in [
        (0, "a"),
        (99, "a"),
        (100, "a"),
        (199, "a"),
        (200, "b"),
        (299, "b"),
        (300, "c"),
        (u64::MAX, "c"),
    ] {
        assert_eq!(keys.current(at(now)).kid(), kid, "at {now}");
    }
    let order: Vec<_> = keys.iter().map(Key::kid).collect();
    assert_eq!((order, keys.count()), (vec!["a", "b", "c"], 3));
}

#[test]
fn key_is_honoured_before_its_first_use_and_for_the_overlap_after_that_of_its_successor() {
    let keys = three();
    let overlap = Duration::from_secs(50);
    for (now, kids) in [
        (0, "abc"),
        (200, "abc"),
        (249, "abc"),
        (250, "bc"),
        (349, "bc"),
        (350, "c"),
        (u64::MAX, "c"),
    ] {
        let honoured: String = keys.honoured(at(now), overlap).map(Key::kid).collect();
        assert_eq!(honoured, kids, "at {now}");
    }
    let unlimited = keys.honoured(at(250_000_000_000), Duration::MAX).count();
    assert_eq!(unlimited, 3);
}

#[test]
fn key_set_has_at_least_one_key_and_unique_ids() {
    let none: Result<KeySet<SealingKey>, _> = KeySet::new(vec![]);
    assert!(matches!(none, Err(KeyError::Empty)));
    let twice = vec![sealing("a", 100), sealing("b", 200), sealing("a", 300)];
    let twice = KeySet::new(twice);
    assert!(matches!(twice, Err(KeyError::Duplicate(kid)) if kid == "a"));
}

#[test]
fn age_of_a_key_counts_from_its_first_use() {
    let key = sealing("a", 100);
    assert_eq!(age_seconds(&key, at(90)), -10);
    assert_eq!(age_seconds(&key, at(160)), 60);
}

#[test]
fn published_key_has_only_the_members_that_verifiers_need() {
    for (algorithm, members) in [
        (Algorithm::Es256, "alg crv kid kty use x y"),
        (Algorithm::EdDsa, "alg crv kid kty use x"),
        (Algorithm::Rs256, "alg e kid kty n use"),
    ] {
        let file = generate(KeyPurpose::Signing(algorithm), time(0)).unwrap();
        let key = SigningKey::from_file(&file).unwrap();
        let published = key.public_jwk().as_ref();
        let mut names: Vec<_> = published.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), members);
        assert!(PRIVATE.iter().all(|name| !published.contains_key(*name)));
        assert_eq!(published["alg"], algorithm.name());
        assert_eq!(published["use"], "sig");
        assert_eq!(published["kid"], file.kid());
    }
}

/// RFC 7638 section 3.
fn thumbprint(jwk: &Value, members: &[&str]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|name| format!(r#""{name}":{}"#, jwk[*name]))
        .collect();
    let canonical = format!("{{{}}}", members.join(","));
    BASE64.encode(digest(&SHA256, canonical.as_bytes()))
}

#[test]
fn kid_of_a_new_signing_key_is_its_thumbprint() {
    let example = json!({
        "kty": "RSA",
        "n": concat!(
            "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_B",
            "JECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_F",
            "DW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4",
            "vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
        ),
        "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"
    });
    let expected = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs";
    assert_eq!(thumbprint(&example, &["e", "kty", "n"]), expected);
    for (algorithm, members) in [
        (Algorithm::Es256, &["crv", "kty", "x", "y"][..]),
        (Algorithm::EdDsa, &["crv", "kty", "x"]),
        (Algorithm::Rs256, &["e", "kty", "n"]),
    ] {
        let jwk = generated(KeyPurpose::Signing(algorithm));
        assert_eq!(jwk["kid"], thumbprint(&jwk, members));
    }
}

#[test]
fn kid_of_a_sealing_key_does_not_depend_on_its_secret() {
    let jwk = generated(KeyPurpose::Sealing);
    let kid = jwk["kid"].as_str().unwrap();
    assert_ne!(kid, thumbprint(&jwk, &["k", "kty"]));
    assert_eq!(kid.len(), 17);
}

#[test]
fn debug_shows_no_key_material() {
    for purpose in PURPOSES {
        let jwk = generated(purpose);
        let file = parsed(&jwk).unwrap();
        let shown = match purpose {
            KeyPurpose::Signing(_) => format!("{:?}", SigningKey::from_file(&file).unwrap()),
            KeyPurpose::Sealing => format!("{:?}", SealingKey::from_file(&file).unwrap()),
        };
        for name in PRIVATE.iter().take(8) {
            let secret = jwk.get(*name).and_then(Value::as_str);
            assert!(secret.is_none_or(|secret| !shown.contains(secret)));
        }
    }
}
