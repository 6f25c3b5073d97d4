use std::collections::HashSet;

use aws_lc_rs::rand::SystemRandom;
use iam_adapters::name::Name as _;
use jiff::Timestamp;
use josekit::jws::{self, ES256, EdDSA, JwsVerifier, RS256};
use serde_json::{Value, json};

use super::*;
use crate::keys::{Algorithm, KeyPurpose, generate};

const NOW: u64 = 1_800_000_000;

fn at(seconds: u64) -> Moment {
    Moment {
        unix: Duration::from_millis(seconds * 1_000 + 999),
        monotonic: Duration::ZERO,
    }
}

fn key(algorithm: Algorithm, first_use: i64) -> SigningKey {
    let first_use = Timestamp::from_second(first_use).unwrap();
    let file = generate(KeyPurpose::Signing(algorithm), first_use).unwrap();
    SigningKey::from_file(&file).unwrap()
}

fn key_set(algorithm: Algorithm) -> KeySet<SigningKey> {
    KeySet::new(vec![key(algorithm, 0)]).unwrap()
}

fn policy(audience: &[&str]) -> TokenPolicy {
    TokenPolicy {
        issuer: "https://auth.test".to_owned(),
        audience: audience.iter().map(|&one| one.to_owned()).collect(),
        client_id: "auth-gateway".to_owned(),
        lifetime: Duration::from_secs(3_600),
        audiences: Vec::new(),
        token_type: TokenType::AtJwt,
    }
}

const GRANT: Grant<'_> = Grant {
    subject: "sub\"ject é",
    session_id: "AAAAAAAAAAAAAAAAAAAAAA",
    scope: "read write",
    session_expires_at: NOW + 86_400,
    claims: &Claims::NONE,
};

fn minted(keys: &KeySet<SigningKey>, audience: &[&str], grant: Grant<'_>) -> AccessToken {
    let random = SystemRandom::new();
    issue(keys, &policy(audience), grant, at(NOW), &random).unwrap()
}

/// Header and claims according to another JOSE implementation, verified with the published key.
fn verified(key: &SigningKey, token: &str) -> Option<(Value, Value)> {
    let published = key.public_jwk();
    let verifier: Box<dyn JwsVerifier> = match key.algorithm() {
        Algorithm::Es256 => Box::new(ES256.verifier_from_jwk(published).unwrap()),
        Algorithm::EdDsa => Box::new(EdDSA.verifier_from_jwk(published).unwrap()),
        Algorithm::Rs256 => Box::new(RS256.verifier_from_jwk(published).unwrap()),
    };
    let (claims, header) = jws::deserialize_compact(token, &*verifier).ok()?;
    Some((
        serde_json::to_value(header.claims_set()).unwrap(),
        serde_json::from_slice(&claims).unwrap(),
    ))
}

#[test]
fn token_of_each_algorithm_verifies_only_with_its_published_key() {
    for algorithm in Algorithm::ALL {
        let (keys, other) = (key_set(algorithm), key(algorithm, 0));
        let own = keys.iter().next().unwrap();
        let token = minted(&keys, &["a"], GRANT);
        let (header, claims) = verified(own, token.expose()).unwrap();
        assert_eq!(
            header,
            json!({"typ": "at+jwt", "alg": algorithm.name(), "kid": own.kid()})
        );
        assert_eq!(claims["sub"], GRANT.subject);
        assert!(verified(&other, token.expose()).is_none());
        let changed = token.expose().replacen('.', ".A", 1);
        assert!(verified(own, &changed).is_none());
    }
}

#[test]
fn claims_are_those_of_rfc_9068_and_the_session_id() {
    let keys = key_set(Algorithm::EdDsa);
    let token = minted(&keys, &["https://api.test"], GRANT);
    let (_, mut claims) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
    let jti = claims.as_object_mut().unwrap().remove("jti").unwrap();
    assert_eq!(BASE64.decode(jti.as_str().unwrap()).unwrap().len(), 16);
    assert_eq!(
        claims,
        json!({
            "iss": "https://auth.test", "sub": "sub\"ject é", "aud": "https://api.test",
            "exp": NOW + 3_600, "iat": NOW, "client_id": "auth-gateway",
            "scope": "read write", "sid": "AAAAAAAAAAAAAAAAAAAAAA",
        })
    );
    // JSON has one number type; libraries of verifiers have two.
    assert!(claims["exp"].is_u64() && claims["iat"].is_u64());
}

#[test]
fn empty_scope_is_omitted() {
    let keys = key_set(Algorithm::EdDsa);
    let grant = Grant { scope: "", ..GRANT };
    let token = minted(&keys, &["a"], grant);
    let (_, claims) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
    assert_eq!(claims.get("scope"), None);
}

#[test]
fn one_audience_is_a_string_and_several_are_an_array() {
    let keys = key_set(Algorithm::EdDsa);
    for (audience, claim) in [(&["a"][..], json!("a")), (&["a", "b"], json!(["a", "b"]))] {
        let token = minted(&keys, audience, GRANT);
        let (_, claims) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
        assert_eq!(claims["aud"], claim);
    }
}

#[test]
fn token_expires_after_its_lifetime_or_with_its_session() {
    let keys = key_set(Algorithm::EdDsa);
    for (rest, lifetime) in [
        (86_400, 3_600),
        (3_601, 3_600),
        (3_600, 3_600),
        (3_599, 3_599),
        (1, 1),
        (0, 0),
    ] {
        let grant = Grant {
            session_expires_at: NOW + rest,
            ..GRANT
        };
        let token = minted(&keys, &["a"], grant);
        assert_eq!(token.expires_in, lifetime);
        let (_, claims) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
        assert_eq!(claims["iat"], NOW);
        assert_eq!(claims["exp"], NOW + lifetime);
    }
    let expired = Grant {
        session_expires_at: NOW - 1,
        ..GRANT
    };
    assert_eq!(minted(&keys, &["a"], expired).expires_in, 0);
}

#[test]
fn claims_of_any_length_are_complete() {
    for algorithm in [Algorithm::EdDsa, Algorithm::Es256] {
        let keys = key_set(algorithm);
        for length in (1..8).chain([700, 4_000]) {
            let subject = "s".repeat(length);
            let grant = Grant {
                subject: &subject,
                ..GRANT
            };
            let token = minted(&keys, &["a"], grant);
            let (_, claims) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
            assert_eq!(claims["sub"], subject);
        }
    }
}

#[test]
fn token_ids_are_unique() {
    let keys = key_set(Algorithm::EdDsa);
    let ids: HashSet<_> = (0..10_000)
        .map(|_| {
            let token = minted(&keys, &["a"], GRANT);
            let payload = token.expose().split('.').nth(1).unwrap();
            let claims: Value = serde_json::from_slice(&BASE64.decode(payload).unwrap()).unwrap();
            claims["jti"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids.len(), 10_000);
    assert!(ids.iter().all(|id| id.len() == 22));
}

#[test]
fn key_in_use_signs() {
    let now = i64::try_from(NOW).unwrap();
    let [old, new, next] =
        [now - 100, now, now + 1].map(|first_use| key(Algorithm::Es256, first_use));
    let keys = KeySet::new(vec![next, old, new]).unwrap();
    let [old, new, next] = keys.iter().collect::<Vec<_>>().try_into().unwrap();
    let token = minted(&keys, &["a"], GRANT);
    assert!(verified(new, token.expose()).is_some());
    assert!(verified(old, token.expose()).is_none());
    assert!(verified(next, token.expose()).is_none());
}

#[test]
fn debug_output_is_the_lifetime_alone() {
    let token = minted(&key_set(Algorithm::EdDsa), &["a"], GRANT);
    let shown = format!("{token:?}");
    assert_eq!(shown, "AccessToken { expires_in: 3600, .. }");
}

#[test]
fn audience_is_that_of_the_granted_scopes_in_their_order_each_once() {
    let keys = key_set(Algorithm::EdDsa);
    let entry = |scope: &str, audience: &str| ScopeAudience {
        scope: ScopePattern::parse(scope).unwrap(),
        audience: audience.to_owned(),
    };
    let policy = TokenPolicy {
        audiences: vec![
            entry("orders:admin", "admin"),
            entry("orders:*", "orders"),
            entry("catalog:*", "catalog"),
        ],
        ..policy(&["first", "second"])
    };
    let all = ["first", "second", "admin", "orders", "catalog"];
    assert_eq!(policy.all_audiences(), all);
    for (scope, expected) in [
        ("orders:read", json!("orders")),
        // The first entry that matches decides.
        ("orders:admin", json!("admin")),
        ("orders:read orders:write", json!("orders")),
        (
            "catalog:read orders:read catalog:write",
            json!(["catalog", "orders"]),
        ),
        // A scope without an entry has the audience of all.
        ("read", json!(["first", "second"])),
        ("orders:read read", json!(["orders", "first", "second"])),
        ("Orders:read", json!(["first", "second"])),
        ("", json!(["first", "second"])),
    ] {
        let grant = Grant { scope, ..GRANT };
        let token = issue(&keys, &policy, grant, at(NOW), &SystemRandom::new()).unwrap();
        let (_, claims) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
        assert_eq!(claims["aud"], expected, "{scope}");
    }
    // An entry for all scopes is not for a token without one.
    let policy = TokenPolicy {
        audiences: vec![entry("*", "all")],
        ..policy
    };
    for (scope, expected) in [("read", json!("all")), ("", json!(["first", "second"]))] {
        assert_eq!(json!(policy.audience_of(scope)), expected, "{scope}");
    }
}

#[test]
fn type_is_that_of_the_settings() {
    let keys = key_set(Algorithm::EdDsa);
    for token_type in [TokenType::AtJwt, TokenType::Jwt] {
        let policy = TokenPolicy {
            token_type,
            ..policy(&["a"])
        };
        let token = issue(&keys, &policy, GRANT, at(NOW), &SystemRandom::new()).unwrap();
        let (header, _) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
        assert_eq!(header["typ"], token_type.name());
    }
}

#[test]
fn claims_of_the_iam_follow_those_of_the_gateway() {
    let keys = key_set(Algorithm::EdDsa);
    let claims = Claims::from_members(r#","email":"a\"b@example.test","groups":["x"]"#).unwrap();
    let grant = Grant {
        claims: &claims,
        ..GRANT
    };
    let token = minted(&keys, &["a"], grant);
    let (_, claims) = verified(keys.iter().next().unwrap(), token.expose()).unwrap();
    assert_eq!(claims["email"], "a\"b@example.test");
    assert_eq!(claims["groups"], json!(["x"]));
    assert_eq!(claims["sid"], GRANT.session_id);
    assert_eq!(claims.as_object().unwrap().len(), 11);
}
