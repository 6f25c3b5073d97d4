//! How a revocation is written in Redis: all of it in the key but for when it may be forgotten, so
//! that no later writing makes an earlier one less.

use crate::gateway::revocations::{Kind, Name, Revocation};

/// What every key begins with.
pub(super) const PREFIX: &str = "auth-gateway:revocation:";

/// Where revocations are told as they happen.
pub(super) const CHANNEL: &str = "auth-gateway:revocations";

/// Far above the longest message, or key without its prefix, or value.
pub(super) const TEXT_MAX: usize = 128;

/// The key of a revocation.
pub(super) fn key(revocation: &Revocation) -> String {
    format!("{PREFIX}{}", what(revocation))
}

/// The value at its key.
pub(super) fn value(revocation: &Revocation) -> String {
    revocation.forget_at.to_string()
}

/// The message that tells it.
pub(super) fn message(revocation: &Revocation) -> String {
    format!("{} {}", what(revocation), revocation.forget_at)
}

fn what(revocation: &Revocation) -> String {
    let name = revocation.name.encode();
    match revocation.kind {
        Kind::Session => format!("session:{name}"),
        Kind::UpstreamSession => format!("upstream_session:{name}"),
        Kind::Subject => format!("subject:{name}:{}", revocation.begun_until),
    }
}

/// Reads a message.
pub(super) fn read_message(text: &[u8]) -> Option<Revocation> {
    let (what, forget_at) = short(text)?.split_once(' ')?;
    read(what, forget_at)
}

/// Reads a key and its value.
pub(super) fn read_entry(key: &[u8], value: &[u8]) -> Option<Revocation> {
    let what = key.strip_prefix(PREFIX.as_bytes())?;
    read(short(what)?, short(value)?)
}

fn short(text: &[u8]) -> Option<&str> {
    let text = text.get(..text.len().min(TEXT_MAX + 1))?;
    (text.len() <= TEXT_MAX).then(|| std::str::from_utf8(text).ok())?
}

fn read(what: &str, forget_at: &str) -> Option<Revocation> {
    let mut parts = what.split(':');
    let (kind, name) = (parts.next()?, Name::decode(parts.next()?)?);
    let (kind, begun_until) = match (kind, parts.next()) {
        ("session", None) => (Kind::Session, u64::MAX),
        ("upstream_session", None) => (Kind::UpstreamSession, u64::MAX),
        ("subject", Some(moment)) => (Kind::Subject, seconds(moment)?),
        _ => return None,
    };
    parts.next().is_none().then_some(())?;
    Some(Revocation {
        kind,
        name,
        end: kind.told_as(),
        begun_until,
        forget_at: seconds(forget_at)?,
    })
}

/// Digits and nothing else: neither a sign nor a zero before them.
fn seconds(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn revocation(kind: Kind, name: [u8; 16], moment: u64, forget_at: u64) -> Revocation {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(name);
        let begun_until = match kind {
            Kind::Session | Kind::UpstreamSession => u64::MAX,
            Kind::Subject => moment,
        };
        Revocation {
            kind,
            name: Name::decode(&text).unwrap(),
            end: kind.told_as(),
            begun_until,
            forget_at,
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            kind in prop::sample::select(Kind::ALL.to_vec()),
            name in any::<[u8; 16]>(),
            moment in any::<u64>(),
            forget_at in any::<u64>(),
        ) {
            let written = revocation(kind, name, moment, forget_at);
            prop_assert_eq!(read_message(message(&written).as_bytes()), Some(written));
            let read = read_entry(key(&written).as_bytes(), value(&written).as_bytes());
            prop_assert_eq!(read, Some(written));
        }

        #[test]
        fn garbage_is_nothing(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(read_message(&garbage), None);
            prop_assert_eq!(read_entry(&garbage, b"1"), None);
        }
    }

    #[test]
    fn whatever_is_not_written_so_is_nothing() {
        let name = "AAAAAAAAAAAAAAAAAAAAAA";
        assert!(read_message(format!("session:{name} 5").as_bytes()).is_some());
        assert!(read_message(format!("subject:{name}:4 5").as_bytes()).is_some());
        for wrong in [
            String::new(),
            " ".to_owned(),
            format!("session:{name}"),
            format!("session:{name} "),
            format!("session:{name} 5 "),
            format!("session:{name}  5"),
            format!("session:{name} -5"),
            format!("session:{name} +5"),
            format!("session:{name} 05"),
            format!("session:{name} 18446744073709551616"),
            format!("session:{name}:4 5"),
            format!("session:{name}A 5"),
            format!("session:{} 5", &name[1..]),
            format!("session:{name}= 5"),
            format!("subject:{name} 5"),
            format!("subject:{name}: 5"),
            format!("subject:{name}:4:4 5"),
            format!("Session:{name} 5"),
            format!("living:{name} 5"),
            format!("session:{name} {}5", "0".repeat(TEXT_MAX)),
        ] {
            assert_eq!(read_message(wrong.as_bytes()), None, "{wrong:?}");
        }
        let (key, no_prefix) = (format!("{PREFIX}session:{name}"), format!("session:{name}"));
        assert!(read_entry(key.as_bytes(), b"5").is_some());
        assert_eq!(read_entry(no_prefix.as_bytes(), b"5"), None);
        assert_eq!(read_entry(key.as_bytes(), b"5\n"), None);
        assert_eq!(read_entry(key.as_bytes(), b"\xff"), None);
    }

    #[test]
    fn a_notice_of_an_earlier_moment_has_a_key_of_its_own() {
        let early = revocation(Kind::Subject, [7; 16], 400, 1_000);
        let late = revocation(Kind::Subject, [7; 16], 500, 1_000);
        assert_ne!(key(&early), key(&late));
    }
}
