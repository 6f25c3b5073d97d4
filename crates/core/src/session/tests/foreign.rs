//! Well-formed tokens that this gateway did not seal, or not for this purpose.

use std::fs;

use josekit::jwe::JweHeader;
use tempfile::tempdir;

use super::*;
use crate::keys::{KeyPurpose, Times, generate, write_new};

/// Seals any text with the key, under any header.
fn sealed_raw(key: &SealingKey, header: &str, text: &[u8]) -> String {
    let mut content = text.to_vec();
    let nonce = [7; NONCE_LEN];
    let tag = key
        .aead()
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(header.as_bytes()),
            &mut content,
        )
        .unwrap();
    let [nonce, content, tag] =
        [&nonce[..], &content, tag.as_ref()].map(|part| BASE64.encode(part));
    format!("{header}..{nonce}.{content}.{tag}")
}

#[test]
fn another_key_with_the_same_id_opens_no_token() {
    let other = KeySet::new(vec![key("k1", 2, 0)]).unwrap();
    let tampered = Err(InvalidSession::Tampered);
    assert_eq!(opened(&other, &sealed("s")), tampered);
    let token = sealed_with(&other, &session("s"));
    assert_eq!(opened(&key_set(), &token), tampered);
}

#[test]
fn only_the_key_named_in_the_header_is_tried() {
    let both = KeySet::new(vec![key("k1", 1, 0), key("k2", 2, 0)]).unwrap();
    let token = sealed("s");
    assert!(opened(&both, &token).is_ok());
    let other_header = header_of(both.iter().find(|key| key.kid() == "k2").unwrap());
    let header = parts(&token)[0];
    let renamed = token.replace(header, other_header);
    assert_eq!(opened(&both, &renamed), Err(InvalidSession::Tampered));
}

#[test]
fn token_with_any_other_header_is_refused_as_unknown_key() {
    let (keys, key) = (key_set(), key("k1", 1, 0));
    let text = serde_json::to_vec(&session("s")).unwrap();
    let own = r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1"}"#;
    let right = sealed_raw(&key, &BASE64.encode(own), &text);
    assert!(opened(&keys, &right).is_ok());
    for header in [
        "",
        "{}",
        "null",
        r#"{"alg":"dir","typ":"auth-gateway-session","enc":"A256GCM","kid":"k1"}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1" }"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k2"}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"K1"}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A128GCM","kid":"k1"}"#,
        r#"{"typ":"auth-gateway-session","alg":"none","enc":"A256GCM","kid":"k1"}"#,
        r#"{"typ":"other","alg":"dir","enc":"A256GCM","kid":"k1"}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1","zip":"DEF"}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1","crit":["x"]}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1","p2c":1}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1","jku":"https://a"}"#,
        r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid":"k1","kid":"k1"}"#,
    ] {
        let token = sealed_raw(&key, &BASE64.encode(header), &text);
        let refused = opened(&keys, &token);
        assert_eq!(refused, Err(InvalidSession::UnknownKey), "{header}");
    }
}

/// The key may be in the folder that cannot be read. A fault is never a refusal.
#[test]
fn unknown_key_is_a_fault_while_the_folder_of_keys_cannot_be_read() {
    let folder = tempdir().unwrap();
    let file = generate(KeyPurpose::Sealing, jiff::Timestamp::UNIX_EPOCH).unwrap();
    let path = write_new(folder.path(), &file).unwrap();
    let keys = KeyStore::open(folder.path().to_owned(), AT, Times::default()).unwrap();
    let opened = |token: &str| {
        let mut buffer = Zeroizing::default();
        open_from(&keys, token, &mut buffer).map(|_| ())
    };
    let own = sealed_with(&keys.key_set(), &session("s"));
    let foreign = sealed("s");
    let tampered = foreign.replace(parts(&foreign)[0], parts(&own)[0]);
    let no_token = format!("x{foreign}");
    let refused = |why| Err(GatewayError::from(why));
    let (unknown, broken) = (InvalidSession::UnknownKey, InvalidSession::Tampered);
    assert_eq!(opened(&foreign), refused(unknown));
    fs::write(path, "no key").unwrap();
    keys.reload(AT);
    assert_eq!(opened(&own), Ok(()));
    assert_eq!(opened(&foreign), Err(Internal::KeysUnreadable.into()));
    assert_eq!(opened(&tampered), refused(broken));
    assert_eq!(opened(&no_token), refused(unknown));
}

#[test]
fn jwe_of_the_same_key_for_another_purpose_does_not_open() {
    let keys = key_set();
    let encrypter = Dir.encrypter_from_bytes(secret(1)).unwrap();
    let mut header = JweHeader::new();
    header.set_content_encryption("A256GCM");
    let text = serde_json::to_vec(&session("s")).unwrap();
    let other_purpose = jwe::serialize_compact(&text, &header, &encrypter).unwrap();
    assert_eq!(
        opened(&keys, &other_purpose),
        Err(InvalidSession::UnknownKey)
    );
    let own = sealed("s");
    let relabelled = other_purpose.replace(parts(&other_purpose)[0], parts(&own)[0]);
    assert_eq!(opened(&keys, &relabelled), Err(InvalidSession::Tampered));
}

#[test]
fn sealed_content_that_is_no_session_of_this_format_is_refused() {
    let (keys, key) = (key_set(), key("k1", 1, 0));
    let right = serde_json::to_value(session("s")).unwrap();
    assert!(opened(&keys, &sealed_raw(&key, header_of(&key), &text_of(&right))).is_ok());
    let mut wrong: Vec<Value> = vec![json!(null), json!({}), json!([right]), json!("s")];
    for version in [
        json!(0),
        json!(1),
        json!(3),
        json!(-1),
        json!(257),
        json!("1"),
        json!(2.0),
    ] {
        wrong.push(with(&right, "v", version));
    }
    for member in [
        "sid", "iam", "iss", "sub", "usid", "secret", "iat", "exp", "v",
    ] {
        wrong.push(with(&right, member, Value::Null));
        wrong.push(with(&right, member, json!([1])));
        let mut without = right.clone();
        without.as_object_mut().unwrap().remove(member);
        wrong.push(without);
    }
    wrong.push(with(&right, "exp", json!(-1)));
    wrong.push(with(&right, "exp", json!(1e30)));
    wrong.push(with(&right, "exp", json!("1800086400")));
    wrong.push(with(&right, "admin", json!(true)));
    for value in wrong {
        let token = sealed_raw(&key, header_of(&key), &text_of(&value));
        let refused = opened(&keys, &token);
        assert_eq!(refused, Err(InvalidSession::Malformed), "{value}");
    }
}

#[test]
fn repeated_member_or_trailing_text_is_refused() {
    let (keys, key) = (key_set(), key("k1", 1, 0));
    let right = String::from_utf8(text_of(&session("s"))).unwrap();
    for text in [
        right.replace(r#""exp":"#, r#""exp":9,"exp":"#),
        format!("{right}{right}"),
        format!("{right} x"),
        right[..right.len() - 1].to_owned(),
    ] {
        let token = sealed_raw(&key, header_of(&key), text.as_bytes());
        assert_eq!(
            opened(&keys, &token),
            Err(InvalidSession::Malformed),
            "{text}"
        );
    }
}

fn text_of(session: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(session).unwrap()
}

fn with(session: &Value, member: &str, value: Value) -> Value {
    let mut session = session.clone();
    session[member] = value;
    session
}
