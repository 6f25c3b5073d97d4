use std::collections::HashSet;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use josekit::jwe::{self, Dir};
use josekit::jwk::Jwk;
use serde_json::{Value, json};

use super::*;

mod flips;
mod foreign;
mod shape;
mod wycheproof;

const AT: Moment = Moment {
    unix: Duration::from_secs(1_800_000_000),
    monotonic: Duration::ZERO,
};

fn secret(seed: u8) -> Vec<u8> {
    (0..32).map(|byte| byte ^ seed).collect()
}

fn key(kid: &str, seed: u8, first_use: i64) -> SealingKey {
    let first_use = jiff::Timestamp::from_second(first_use).unwrap();
    SealingKey::new(&secret(seed), kid, first_use).unwrap()
}

fn key_set() -> KeySet<SealingKey> {
    KeySet::new(vec![key("k1", 1, 0)]).unwrap()
}

fn session(secret: &str) -> SealedSession<'_> {
    SealedSession {
        v: FORMAT,
        sid: "AAAAAAAAAAAAAAAAAAAAAA".into(),
        iam: "keycloak".into(),
        iss: "https://iam.test/realms/\"shop\"".into(),
        sub: "subject".into(),
        usid: "upstream".into(),
        secret: secret.into(),
        iat: 1_800_000_000_000,
        exp: 1_800_086_400,
    }
}

fn sealed_with(keys: &KeySet<SealingKey>, session: &SealedSession<'_>) -> String {
    seal(keys, session, AT, &SystemRandom::new()).unwrap().0
}

fn sealed(secret: &str) -> String {
    sealed_with(&key_set(), &session(secret))
}

/// The members of the session, or the reason why it does not open.
fn opened(keys: &KeySet<SealingKey>, token: &str) -> Result<Value, InvalidSession> {
    let mut buffer = Zeroizing::default();
    let session = open(keys, token, &mut buffer)?;
    Ok(serde_json::to_value(&session).unwrap())
}

fn parts(token: &str) -> [&str; 5] {
    let parts: Vec<_> = token.split('.').collect();
    parts.try_into().unwrap()
}

#[test]
fn sealed_session_opens_with_exactly_its_members() {
    let expected = json!({
        "v": 2, "sid": "AAAAAAAAAAAAAAAAAAAAAA", "iam": "keycloak",
        "iss": "https://iam.test/realms/\"shop\"", "sub": "subject", "usid": "upstream",
        "secret": "the refresh token é\n", "iat": 1_800_000_000_000_u64, "exp": 1_800_086_400,
    });
    let token = sealed("the refresh token é\n");
    assert_eq!(opened(&key_set(), &token), Ok(expected));
}

#[test]
fn another_jose_implementation_opens_the_token() {
    let token = sealed("the refresh token");
    let jwk = json!({"kty": "oct", "k": BASE64.encode(secret(1))});
    let jwk = Jwk::from_bytes(jwk.to_string()).unwrap();
    let decrypter = Dir.decrypter_from_jwk(&jwk).unwrap();
    let (text, header) = jwe::deserialize_compact(&token, &decrypter).unwrap();
    let read: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(Ok(read), opened(&key_set(), &token));
    let header: Value = serde_json::to_value(header.as_ref()).unwrap();
    assert_eq!(
        header,
        json!({"typ": "auth-gateway-session", "alg": "dir", "enc": "A256GCM", "kid": "k1"})
    );
}

#[test]
fn length_of_a_token_depends_only_on_the_length_of_its_content() {
    for length in [1, 100, 4_000] {
        let alike = "a".repeat(length);
        let mixed: String = ('a'..='z').cycle().take(length).collect();
        assert_eq!(sealed(&alike).len(), sealed(&mixed).len());
        let longer = "a".repeat(length + 3);
        assert_eq!(sealed(&longer).len(), sealed(&alike).len() + 4);
    }
    // Exactly: nothing is compressed.
    for length in 0..300 {
        let secret = "a".repeat(length);
        let text = serde_json::to_string(&session(&secret)).unwrap().len();
        let token = sealed(&secret);
        let frame = parts(&token)[0].len() + 4 + 16 + TAG_TEXT_LEN;
        assert_eq!(token.len(), frame + (text * 4).div_ceil(3));
    }
}

#[test]
fn nonces_are_unique() {
    let keys = key_set();
    let nonces: HashSet<_> = (0..10_000)
        .map(|_| parts(&sealed_with(&keys, &session("s")))[2].to_owned())
        .collect();
    assert_eq!(nonces.len(), 10_000);
}

#[test]
fn largest_token_opens_and_a_larger_one_is_not_sealed() {
    let keys = key_set();
    let room = (TOKEN_BYTES_MAX - sealed("").len()) / 4 * 3;
    let largest = "a".repeat(room + 2);
    let (largest, _) = (0..=room + 2)
        .rev()
        .map(|length| &largest[..length])
        .find_map(|secret| seal(&keys, &session(secret), AT, &SystemRandom::new()).ok())
        .unwrap();
    assert_eq!(largest.len(), TOKEN_BYTES_MAX);
    assert!(opened(&keys, &largest).is_ok());
    for longer in [room + 3, 2 * TOKEN_BYTES_MAX] {
        let session_secret = "a".repeat(longer);
        let made = seal(&keys, &session(&session_secret), AT, &SystemRandom::new());
        let refused = GatewayError::Internal(Internal::SessionTooLarge);
        assert_eq!(made.err(), Some(refused));
    }
}

#[test]
fn key_in_use_seals_and_every_key_of_the_set_opens() {
    let now = i64::try_from(AT.unix_seconds()).unwrap();
    let old = || key("old", 1, now - 100);
    let before = KeySet::new(vec![old()]).unwrap();
    let after = KeySet::new(vec![key("next", 3, now + 1), key("new", 2, now), old()]).unwrap();
    let without = KeySet::new(vec![key("new", 2, now)]).unwrap();
    let sealed_before = sealed_with(&before, &session("s"));
    let sealed_after = sealed_with(&after, &session("s"));
    assert!(opened(&after, &sealed_before).is_ok());
    assert!(opened(&without, &sealed_after).is_ok());
    let unknown = Err(InvalidSession::UnknownKey);
    assert_eq!(opened(&before, &sealed_after), unknown);
    assert_eq!(opened(&without, &sealed_before), unknown);
}

#[test]
fn opening_a_token_needs_one_allocation() {
    for length in 0..100 {
        let token = sealed(&"a".repeat(length));
        let [.., text, tag] = parts(&token);
        let mut buffer = Zeroizing::default();
        open(&key_set(), &token, &mut buffer).unwrap();
        assert_eq!(buffer.capacity(), (text.len() + tag.len()) / 4 * 3 + 8);
    }
}

#[test]
fn key_that_is_read_again_is_the_same_only_with_the_same_secret() {
    let before = key("k1", 1, 0);
    assert!(key("k1", 1, 60).is_same(&before));
    assert!(!key("k1", 2, 0).is_same(&before));
}

#[test]
fn session_id_is_22_characters_and_unique() {
    const MANY: usize = 1_000_000;
    let random = SystemRandom::new();
    let ids: HashSet<_> = (0..MANY)
        .map(|_| SessionId::generate(&random).unwrap())
        .collect();
    assert_eq!(ids.len(), MANY);
    assert!(ids.iter().take(1_000).all(|id| id.to_string().len() == 22));
}

#[test]
fn session_id_has_exactly_one_text_form() {
    let id = SessionId::generate(&SystemRandom::new()).unwrap();
    let text = id.to_string();
    assert_eq!(SessionId::parse(&text), Some(id));
    let other_last_bits = format!("{}x", &text[..21]);
    for wrong in [
        "",
        "A",
        &text[..21],
        &format!("{text}="),
        &format!(" {text}"),
        &other_last_bits,
    ] {
        assert_eq!(SessionId::parse(wrong), None, "{wrong:?}");
    }
}
