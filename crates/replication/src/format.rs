//! The format of a revocation in the stream: a fixed number of bytes, authenticated with a key that is
//! derived from the sealing key.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version, 2 |
//! | 8 | when the entry can be removed, in seconds since 1970 |
//! | 8 | only sessions whose login began then or before are revoked, in milliseconds since 1970 by the clock of Redis |
//! | 1 | the kind |
//! | 16 | the id |
//! | 4 | the id of the key |
//! | 16 | the tag: HMAC-SHA256 of all bytes before it, truncated |
//!
//! Numbers are big-endian. The script that removes expired entries reads the first two members.

use auth_gateway_core::event::Ignored;
use auth_gateway_core::keys::{KeySet, SealingKey};
use auth_gateway_core::revocations::{
    REVOCATION_ID_LEN, Revocation, RevocationId, RevocationKey, RevocationKind,
};
use auth_gateway_core::stream_mac_key::{KEY_ID_LEN, StreamMacKey, TAG_LEN};

/// The name of the only member of a stream entry.
pub(super) const FIELD: &str = "r";

const VERSION: u8 = 2;

const TEXT_LEN: usize = 1 + 8 + 8 + 1 + REVOCATION_ID_LEN + KEY_ID_LEN;

pub(super) const ENTRY_LEN: usize = TEXT_LEN + TAG_LEN;

/// An entry, or what has its length.
pub(super) type RevocationEntry = [u8; ENTRY_LEN];

pub(super) fn write(revocation: &Revocation, key: &StreamMacKey) -> RevocationEntry {
    let parts: [&[u8]; 5] = [
        &[VERSION],
        &revocation.forget_at.to_be_bytes(),
        &revocation.begun_until.to_be_bytes(),
        &[revocation.kind as u8],
        revocation.id.as_bytes(),
    ];
    complete(&parts, key)
}

/// Reads an entry.
///
/// # Errors
///
/// Why it is ignored.
pub(super) fn read(
    entry: &RevocationEntry,
    keys: &KeySet<SealingKey>,
) -> Result<Revocation, Ignored> {
    let mut rest = entry.as_slice();
    let [version] = take(&mut rest)?;
    let forget_at = u64::from_be_bytes(take(&mut rest)?);
    let begun_until = u64::from_be_bytes(take(&mut rest)?);
    let [kind] = take(&mut rest)?;
    let id = RevocationId::from_bytes(take(&mut rest)?);
    let kind = RevocationKind::from_repr(kind).filter(|_| version == VERSION);
    let kind = kind.ok_or(Ignored::Malformed)?;
    verify(
        entry,
        keys.iter().map(|key| RevocationKey::of(key).entries()),
    )?;
    Ok(Revocation {
        kind,
        id,
        cause: kind.usual_cause(),
        begun_until,
        forget_at,
    })
}

/// Completes an entry of `N` bytes: adds the id of the key, and the tag of all bytes before it.
pub(super) fn complete<const N: usize>(parts: &[&[u8]], key: &StreamMacKey) -> [u8; N] {
    let mut text = parts.concat();
    text.extend(key.id());
    text.extend(key.tag(&text));
    text.try_into().unwrap_or([0; N])
}

/// Verifies the end of an entry, the id of one of the keys and the tag.
///
/// # Errors
///
/// Why the entry is ignored.
pub(super) fn verify<'k>(
    entry: &[u8],
    mut keys: impl Iterator<Item = &'k StreamMacKey>,
) -> Result<(), Ignored> {
    let (text, tag) = entry
        .split_last_chunk::<TAG_LEN>()
        .ok_or(Ignored::Malformed)?;
    let (_, id) = text.split_last_chunk().ok_or(Ignored::Malformed)?;
    let key = keys
        .find(|key| key.id() == *id)
        .ok_or(Ignored::UnknownKey)?;
    key.verifies(text, tag).then_some(()).ok_or(Ignored::Forged)
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Ignored> {
    let (first, others) = rest.split_first_chunk().ok_or(Ignored::Malformed)?;
    *rest = others;
    Ok(*first)
}

#[cfg(test)]
mod tests;
