//! The format of a login event in a stream: a fixed number of bytes, authenticated with a key that is
//! derived from the key of identifiers.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version, 1 |
//! | 8 | when the entry can be removed, in seconds since 1970 |
//! | 8 | when it happened, in milliseconds since 1970 |
//! | 1 | the kind |
//! | 24 | the first halves of three identifiers of accounts and networks, 0 for none |
//! | 8 | the id of the replica, random at each start |
//! | 8 | the number of the event in this log of the replica |
//! | 4 | the id of the key |
//! | 16 | the tag: HMAC-SHA256 of all bytes before it, truncated |
//!
//! Numbers are big-endian. The script that removes expired entries reads the first two members.

use super::format::{complete, take, verify};
use auth_gateway_core::event::Ignored;
use auth_gateway_core::login_limiter::{LoginChange, LoginEvent};
use auth_gateway_core::stream_mac_key::{KEY_ID_LEN, StreamMacKey, TAG_LEN};

const VERSION: u8 = 1;

pub(super) const ENTRY_LEN: usize = 1 + 8 + 8 + 1 + 3 * 8 + 8 + 8 + KEY_ID_LEN + TAG_LEN;

/// An entry, or what has its length.
pub(super) type LoginEntry = [u8; ENTRY_LEN];

/// A login event, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NumberedEvent {
    pub(super) replica: u64,
    /// Its number; later events of the replica in the same log have higher ones.
    pub(super) number: u64,
    pub(super) event: LoginEvent,
}

pub(super) fn write(numbered: &NumberedEvent, key: &StreamMacKey) -> LoginEntry {
    let event = &numbered.event;
    let (kind, hashes) = match event.change {
        LoginChange::Failed {
            of,
            networks: [own, site],
            in_a_row: true,
        } => (1, [of, own, site]),
        LoginChange::Failed {
            of,
            networks: [own, site],
            in_a_row: false,
        } => (2, [of, own, site]),
        LoginChange::Succeeded { of } => (3, [of, 0, 0]),
        LoginChange::KnownNetwork { pair } => (4, [pair, 0, 0]),
        LoginChange::Reset { account, pair } => (5, [account, pair, 0]),
    };
    let hashes = hashes.map(u64::to_be_bytes);
    let parts: [&[u8]; 7] = [
        &[VERSION],
        &event.forget_at.to_be_bytes(),
        &event.at.to_be_bytes(),
        &[kind],
        hashes.as_flattened(),
        &numbered.replica.to_be_bytes(),
        &numbered.number.to_be_bytes(),
    ];
    complete(&parts, key)
}

/// Reads an entry.
///
/// # Errors
///
/// Why it is ignored.
pub(super) fn read(entry: &LoginEntry, key: &StreamMacKey) -> Result<NumberedEvent, Ignored> {
    let mut rest = entry.as_slice();
    let [version] = take(&mut rest)?;
    let forget_at = u64::from_be_bytes(take(&mut rest)?);
    let at = u64::from_be_bytes(take(&mut rest)?);
    let [kind] = take(&mut rest)?;
    let [of, own, site] = [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?];
    let [of, own, site] = [of, own, site].map(u64::from_be_bytes);
    let replica = u64::from_be_bytes(take(&mut rest)?);
    let number = u64::from_be_bytes(take(&mut rest)?);
    let change = match (version, kind) {
        (VERSION, 1 | 2) => LoginChange::Failed {
            of,
            networks: [own, site],
            in_a_row: kind == 1,
        },
        (VERSION, 3) => LoginChange::Succeeded { of },
        (VERSION, 4) => LoginChange::KnownNetwork { pair: of },
        (VERSION, 5) => LoginChange::Reset {
            account: of,
            pair: own,
        },
        _ => return Err(Ignored::Malformed),
    };
    verify(entry, [key].into_iter())?;
    let event = LoginEvent {
        at,
        forget_at,
        change,
    };
    Ok(NumberedEvent {
        replica,
        number,
        event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth_gateway_core::identifiers::IdentifierKey;

    fn numbered(change: LoginChange) -> NumberedEvent {
        NumberedEvent {
            replica: 7,
            number: 8,
            event: LoginEvent {
                at: 400,
                forget_at: 1_000,
                change,
            },
        }
    }

    fn key(secret: u8) -> StreamMacKey {
        IdentifierKey::new(&[secret; 32]).entries().clone()
    }

    #[test]
    fn event_of_every_kind_is_read_as_it_was_written() {
        let networks = [2, 3];
        for change in [
            LoginChange::Failed {
                of: 1,
                networks,
                in_a_row: true,
            },
            LoginChange::Failed {
                of: 1,
                networks,
                in_a_row: false,
            },
            LoginChange::Succeeded { of: 1 },
            LoginChange::KnownNetwork { pair: 1 },
            LoginChange::Reset {
                account: 1,
                pair: 2,
            },
        ] {
            let written = write(&numbered(change), &key(1));
            assert_eq!(read(&written, &key(1)), Ok(numbered(change)));
            assert_eq!(read(&written, &key(2)), Err(Ignored::UnknownKey));
        }
    }

    #[test]
    fn entry_with_any_other_byte_is_ignored() {
        let written = write(&numbered(LoginChange::KnownNetwork { pair: 1 }), &key(1));
        for at in 0..ENTRY_LEN {
            for bit in 0..8 {
                let mut changed = written;
                changed[at] ^= 1 << bit;
                assert!(read(&changed, &key(1)).is_err(), "{at} {bit}");
            }
        }
    }
}
