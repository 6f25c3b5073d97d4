//! The format of a revocation in Redis. The key has all members except the expiry, so that a later
//! write cannot weaken an earlier one.

use crate::gateway::revocations::{Kind, Name, Revocation};

/// The prefix of all keys.
pub(super) const PREFIX: &str = "auth-gateway:revocation:";

/// The channel on which new revocations are published.
pub(super) const CHANNEL: &str = "auth-gateway:revocations";

/// Longer than any message, key without its prefix, or value.
pub(super) const TEXT_MAX: usize = 128;

/// The key of a revocation.
pub(super) fn key(revocation: &Revocation) -> String {
    format!("{PREFIX}{}", id(revocation))
}

/// The value of the key.
pub(super) fn value(revocation: &Revocation) -> String {
    revocation.forget_at.to_string()
}

/// The published message.
pub(super) fn message(revocation: &Revocation) -> String {
    format!("{} {}", id(revocation), revocation.forget_at)
}

fn id(revocation: &Revocation) -> String {
    let name = revocation.name.encode();
    match revocation.kind {
        Kind::Session => format!("session:{name}"),
        Kind::UpstreamSession => format!("upstream_session:{name}"),
        Kind::Subject => format!("subject:{name}:{}", revocation.begun_until),
        Kind::Iam => format!("iam:{name}:{}", revocation.begun_until),
    }
}

/// Reads a message.
pub(super) fn read_message(text: &[u8]) -> Option<Revocation> {
    let (id, forget_at) = bounded(text)?.split_once(' ')?;
    read(id, forget_at)
}

/// Reads a key and its value.
pub(super) fn read_entry(key: &[u8], value: &[u8]) -> Option<Revocation> {
    let id = key.strip_prefix(PREFIX.as_bytes())?;
    read(bounded(id)?, bounded(value)?)
}

fn bounded(text: &[u8]) -> Option<&str> {
    let text = text.get(..text.len().min(TEXT_MAX + 1))?;
    (text.len() <= TEXT_MAX).then(|| std::str::from_utf8(text).ok())?
}

fn read(id: &str, forget_at: &str) -> Option<Revocation> {
    let mut parts = id.split(':');
    let (kind, name) = (parts.next()?, Name::decode(parts.next()?)?);
    let (kind, begun_until) = match (kind, parts.next()) {
        ("session", None) => (Kind::Session, u64::MAX),
        ("upstream_session", None) => (Kind::UpstreamSession, u64::MAX),
        ("subject", Some(moment)) => (Kind::Subject, seconds(moment)?),
        ("iam", Some(moment)) => (Kind::Iam, seconds(moment)?),
        _ => return None,
    };
    parts.next().is_none().then_some(())?;
    Some(Revocation {
        kind,
        name,
        cause: kind.replicated_cause(),
        begun_until,
        forget_at: seconds(forget_at)?,
    })
}

/// Only digits: no sign and no leading zero.
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
            Kind::Subject | Kind::Iam => moment,
        };
        Revocation {
            kind,
            name: Name::decode(&text).unwrap(),
            cause: kind.replicated_cause(),
            begun_until,
            forget_at,
        }
    }

    proptest! {
        #[test]
        fn written_revocation_is_read_back(
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
        fn random_input_is_no_revocation(input in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(read_message(&input), None);
            prop_assert_eq!(read_entry(&input, b"1"), None);
        }
    }

    #[test]
    fn other_formats_are_refused() {
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
            format!("iam:{name} 5"),
            format!("subject:{name}: 5"),
            format!("subject:{name}:4:4 5"),
            format!("Session:{name} 5"),
            format!("other:{name} 5"),
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
    fn revocations_of_one_subject_at_different_times_have_different_keys() {
        let early = revocation(Kind::Subject, [7; 16], 400, 1_000);
        let late = revocation(Kind::Subject, [7; 16], 500, 1_000);
        assert_ne!(key(&early), key(&late));
    }
}
