use std::time::Duration;

use iam_adapters::Moment;

use super::*;

const NOW: Moment = Moment {
    unix: Duration::ZERO,
    monotonic: Duration::ZERO,
};

fn key(kid: &str, secret: u8) -> SealingKey {
    let secret: Vec<_> = (secret..).take(32).collect();
    SealingKey::new(&secret, kid, jiff::Timestamp::UNIX_EPOCH).unwrap()
}

fn keys(keys: Vec<SealingKey>) -> KeySet<SealingKey> {
    KeySet::found(keys, NOW, Duration::ZERO).unwrap()
}

fn revocation(kind: RevocationKind) -> Revocation {
    Revocation {
        kind,
        id: RevocationId::from_bytes([7; REVOCATION_ID_LEN]),
        cause: kind.usual_cause(),
        begun_until: 400,
        forget_at: 1_000,
    }
}

#[test]
fn entry_of_every_kind_is_read_as_it_was_written() {
    let own = keys(vec![key("a", 1), key("b", 2)]);
    for kind in RevocationKind::ALL {
        for key in own.iter() {
            let written = write(&revocation(kind), RevocationKey::of(key).entries());
            assert_eq!(read(&written, &own), Ok(revocation(kind)));
        }
    }
}

/// Replicas of this version exchange it with later ones.
#[test]
fn format_is_that_of_the_documentation() {
    let key = key("a", 1);
    let key = RevocationKey::of(&key).entries();
    let entry = write(&revocation(RevocationKind::Subject), key);
    let mut expected = vec![2, 0, 0, 0, 0, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0, 0, 1, 0x90, 3];
    expected.extend([7; 16]);
    expected.extend(key.id());
    assert_eq!(entry[..TEXT_LEN], expected);
    assert_eq!(entry[TEXT_LEN..], key.tag(&expected));
    assert_eq!(key.id(), [18, 202, 144, 168]);
}

#[test]
fn entry_with_any_changed_bit_is_ignored() {
    let own = keys(vec![key("a", 1)]);
    let entry = write(
        &revocation(RevocationKind::Session),
        RevocationKey::of(own.current(NOW)).entries(),
    );
    for bit in 0..8 * ENTRY_LEN {
        let mut changed = entry;
        changed[bit / 8] ^= 1 << (bit % 8);
        let why = read(&changed, &own).unwrap_err();
        let expected = match bit / 8 {
            0 => [Ignored::Malformed].as_slice(),
            // Another kind, or none.
            17 => &[Ignored::Malformed, Ignored::Forged],
            34..38 => &[Ignored::UnknownKey],
            _ => &[Ignored::Forged],
        };
        assert!(expected.contains(&why), "bit {bit}: {why:?}");
    }
}

#[test]
fn entry_of_an_unknown_key_is_ignored_until_the_key_is_loaded() {
    let foreign = key("b", 2);
    let entry = write(
        &revocation(RevocationKind::Session),
        RevocationKey::of(&foreign).entries(),
    );
    let own = keys(vec![key("a", 1)]);
    assert_eq!(read(&entry, &own), Err(Ignored::UnknownKey));
    let both = keys(vec![key("a", 1), foreign]);
    assert!(read(&entry, &both).is_ok());
}
