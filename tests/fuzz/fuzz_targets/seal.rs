//! The seal of session tokens: a sealed session opens unchanged, and no other text opens.

#![no_main]

use auth_gateway_core::keys::{KeySet, SealingKey};
use auth_gateway_core::sealed_session::{FORMAT, SealedSession};
use auth_gateway_core::session::{TOKEN_BYTES_MAX, open, seal};
use auth_gateway_fuzz::NOW;
use aws_lc_rs::rand::SystemRandom;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use zeroize::Zeroizing;

fn key_set() -> KeySet<SealingKey> {
    let secret: Vec<u8> = (0..32).collect();
    let key = SealingKey::new(&secret, "k1", Timestamp::UNIX_EPOCH).expect("a key");
    KeySet::new(vec![key]).expect("a key set")
}

fn opens(keys: &KeySet<SealingKey>, token: &str) -> bool {
    let mut buffer = Zeroizing::default();
    let opened = open(keys, token, &mut buffer).is_ok();
    assert!(buffer.capacity() <= TOKEN_BYTES_MAX);
    opened
}

fuzz_target!(|text: &str| {
    thread_local!(static KEYS: KeySet<SealingKey> = key_set());
    KEYS.with(|keys| {
        // Without the key no token can be made, even with the right header.
        assert!(!opens(keys, text));
        let header = r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1"}"#;
        let header = URL_SAFE_NO_PAD.encode(header);
        assert!(!opens(keys, &format!("{header}.{text}")));

        let mut parts = text.splitn(6, '\0');
        let mut part = || parts.next().unwrap_or_default();
        let session = SealedSession {
            v: FORMAT,
            sid: part().into(),
            iam: part().into(),
            iss: part().into(),
            sub: part().into(),
            usid: part().into(),
            secret: part().into(),
            iat: text.len() as u64,
            exp: u64::MAX - text.len() as u64,
        };
        let Ok((token, _)) = seal(keys, &session, NOW, &SystemRandom::new()) else {
            assert!(text.len() > TOKEN_BYTES_MAX / 16);
            return;
        };
        let mut buffer = Zeroizing::default();
        let opened = open(keys, &token, &mut buffer).expect("a token that was just sealed");
        assert_eq!(
            serde_json::to_value(&opened).expect("JSON"),
            serde_json::to_value(&session).expect("JSON")
        );
        // The input also selects the changed character.
        let seed: usize = text.bytes().map(usize::from).sum();
        let at = seed % token.len();
        let mut other = token.into_bytes();
        let was = other[at];
        other[at] = b"AZaz09-_.=~\0"[seed % 12];
        if other[at] != was {
            let other = String::from_utf8(other).expect("text");
            assert!(!opens(keys, &other));
        }
    });
});
