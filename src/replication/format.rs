//! The format of a revocation in the stream: a fixed number of bytes, authenticated with a key that is
//! derived from the sealing key.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version, 1 |
//! | 8 | when the entry can be removed, in seconds since 1970 |
//! | 8 | only sessions whose login began then or before are revoked, in seconds since 1970 |
//! | 1 | the kind |
//! | 16 | the name |
//! | 4 | the id of the key |
//! | 16 | the tag: HMAC-SHA256 of all bytes before it, truncated |
//!
//! Numbers are big-endian. The script that removes expired entries reads the first two members.

use crate::gateway::entry_key::{EntryKey, KEY_ID_LEN, TAG_LEN};
use crate::gateway::keys::KeySet;
use crate::gateway::revocations::{Kind, NAME_LEN, Name, Revocation};
use crate::gateway::session::SealingKey;
use crate::telemetry::metrics::Ignored;

/// The name of the only member of a stream entry.
pub(super) const FIELD: &str = "r";

/// The number of the format.
const VERSION: u8 = 1;

const TEXT_LEN: usize = 1 + 8 + 8 + 1 + NAME_LEN + KEY_ID_LEN;

/// The length of every entry.
pub(super) const ENTRY_LEN: usize = TEXT_LEN + TAG_LEN;

/// An entry, or what has its length.
pub(super) type Entry = [u8; ENTRY_LEN];

/// Writes an entry.
pub(super) fn write(revocation: &Revocation, key: &EntryKey) -> Entry {
    let parts: [&[u8]; 6] = [
        &[VERSION],
        &revocation.forget_at.to_be_bytes(),
        &revocation.begun_until.to_be_bytes(),
        &[revocation.kind.tag()],
        revocation.name.as_bytes(),
        &key.id(),
    ];
    let mut text = parts.concat();
    let tag = key.tag(&text);
    text.extend(tag);
    let mut entry = [0; ENTRY_LEN];
    let pairs = entry.iter_mut().zip(text);
    pairs.for_each(|(to, from)| *to = from);
    entry
}

/// Reads an entry.
///
/// # Errors
///
/// Why it is ignored.
pub(super) fn read(entry: &Entry, keys: &KeySet<SealingKey>) -> Result<Revocation, Ignored> {
    let mut rest = entry.as_slice();
    let [version] = take(&mut rest)?;
    let forget_at = u64::from_be_bytes(take(&mut rest)?);
    let begun_until = u64::from_be_bytes(take(&mut rest)?);
    let [kind] = take(&mut rest)?;
    let name = Name::from_bytes(take(&mut rest)?);
    let id: [u8; KEY_ID_LEN] = take(&mut rest)?;
    let kind = Kind::from_tag(kind).filter(|_| version == VERSION);
    let kind = kind.ok_or(Ignored::Malformed)?;
    let mut keys = keys.iter().map(|key| key.revocations().entries());
    let key = keys.find(|key| key.id() == id);
    let key = key.ok_or(Ignored::UnknownKey)?;
    let (text, tag) = entry.split_at(TEXT_LEN);
    if !key.verifies(text, tag) {
        return Err(Ignored::Forged);
    }
    Ok(Revocation {
        kind,
        name,
        cause: kind.replicated_cause(),
        begun_until,
        forget_at,
    })
}

/// Takes the first bytes.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Ignored> {
    let (first, others) = rest.split_first_chunk().ok_or(Ignored::Malformed)?;
    *rest = others;
    Ok(*first)
}

#[cfg(test)]
mod tests;
