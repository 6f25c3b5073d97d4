//! Cached data that replicas share: how it is sealed, and how old it is.
//!
//! An entry is the IAM's statement that a session is active, with the permissions of its user. Only a
//! holder of a signing key can make one. A sealing key is not enough: an attacker with it could otherwise
//! make sessions that are valid without the IAM. A holder of a signing key needs no entry to make
//! access tokens.
//!
//! The store is not trusted. It can lose, keep, repeat and exchange entries, so an entry is bound to
//! its session and subject, and its age does not depend on the store alone.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf;
use iam_adapters::{Claims, Moment, Permission, UserData};

use super::super::keys::{DerivationKey, DerivedFrom, Key as _, KeyStore, SigningKey};
use super::super::replica_state::ReplicaState;
use super::super::revocations::RevocationId;
use super::Fingerprint;
use crate::results::LookUp;
use crate::shared_cache::SharedCache;

/// The longest entry, and that of a user with a thousand permissions. A longer one is not shared.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024;

/// The difference of two replicas' clocks for which shared data is never older than the freshness,
/// whatever the store does. Time servers keep it below 0.1 s. It is added to every age, so it also costs
/// introspections: with 1 s and a freshness of 30 s, 4 %; with 5 s, 21 %.
pub const CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// The version of the format of an entry. Others are ignored.
const FORMAT: u8 = 1;

/// Each entry has its own key, derived with a random salt, so their number needs no limit.
pub(crate) const SALT_LEN: usize = 16;

/// The label of the derivation (RFC 5869 section 2.3).
const PURPOSE: &[u8] = b"auth-gateway shared cache v1";

/// Derived from a signing key; seals and opens entries.
#[derive(derive_more::Debug)]
#[debug("CacheSealingKey([REDACTED])")]
pub struct CacheSealingKey(hkdf::Prk);

impl CacheSealingKey {
    /// Derives it.
    #[must_use]
    pub fn derive(key: &DerivationKey) -> Self {
        let secret = key.derive(PURPOSE);
        Self(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &*secret))
    }

    fn of_entry(&self, salt: &[u8]) -> Result<LessSafeKey, Unspecified> {
        let info = [salt];
        let key = self.0.expand(&info, &AES_256_GCM)?;
        Ok(LessSafeKey::new(UnboundKey::from(key)))
    }
}

impl DerivedFrom<SigningKey> for CacheSealingKey {
    fn derived_from(key: &SigningKey) -> Self {
        Self::derive(key.derivation_key())
    }
}

/// The key of an entry is used once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// What an entry belongs to; authenticated with it. The digest of the subject includes adapter and
/// issuer.
fn additional_data(kid: &str, of: &Fingerprint) -> Aad<Vec<u8>> {
    let kid = kid.as_bytes();
    let length = (kid.len() as u64).to_be_bytes();
    Aad::from([&[FORMAT], &length[..], kid, &of.token, &of.subject].concat())
}

/// Seals a content: the format, the salt, the length of the key id, the key id, and the sealed text.
pub(crate) fn seal(
    key: &CacheSealingKey,
    kid: &str,
    salt: [u8; SALT_LEN],
    of: &Fingerprint,
    content: Vec<u8>,
) -> Option<Vec<u8>> {
    let mut text = content;
    let aad = additional_data(kid, of);
    let key = key.of_entry(&salt).ok()?;
    key.seal_in_place_append_tag(nonce(), aad, &mut text).ok()?;
    let kid_len = u8::try_from(kid.len()).ok()?;
    let entry = [&[FORMAT], &salt[..], &[kid_len], kid.as_bytes(), &text].concat();
    (entry.len() <= ENTRY_BYTES_MAX).then_some(entry)
}

/// The parts of an entry, of which nothing is authenticated yet.
struct EntryParts<'e> {
    salt: &'e [u8],
    kid: &'e str,
    text: &'e [u8],
}

fn split(entry: &[u8]) -> Option<EntryParts<'_>> {
    if entry.len() > ENTRY_BYTES_MAX {
        return None;
    }
    let ([FORMAT], rest) = entry.split_first_chunk()? else {
        return None;
    };
    let (salt, rest) = rest.split_at_checked(SALT_LEN)?;
    let (kid_len, rest) = rest.split_first()?;
    let (kid, text) = rest.split_at_checked(usize::from(*kid_len))?;
    let kid = std::str::from_utf8(kid).ok()?;
    Some(EntryParts { salt, kid, text })
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntryContent {
    /// When the IAM was called, by the clock of the replica that called it, since 1970.
    requested_at: Duration,
    /// How long after that the store must keep it.
    lifetime: Duration,
    user: UserData,
}

impl EntryContent {
    pub(crate) fn encode(requested_at: Duration, lifetime: Duration, user: &UserData) -> Vec<u8> {
        let mut text = Vec::new();
        for duration in [requested_at, lifetime] {
            let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            text.extend_from_slice(&millis.to_be_bytes());
        }
        for permission in user.permissions.iter() {
            text.extend_from_slice(permission.as_str().as_bytes());
            text.push(b' ');
        }
        // A name of a permission contains no line feed, so an entry without claims has none. A replica of a
        // version without claims ignores an entry with some.
        let claims = user.claims.as_members();
        if !claims.is_empty() {
            text.push(b'\n');
            text.extend_from_slice(claims.as_bytes());
        }
        text
    }

    fn decode(text: &[u8]) -> Option<Self> {
        let (requested_at, text) = text.split_first_chunk()?;
        let (lifetime, text) = text.split_first_chunk()?;
        let millis = |bytes: &[u8; 8]| Duration::from_millis(u64::from_be_bytes(*bytes));
        let text = std::str::from_utf8(text).ok()?;
        let (names, claims) = text.split_once('\n').unwrap_or((text, ""));
        let names = names.split_terminator(' ');
        let permissions: Result<_, _> = names.map(Permission::parse).collect();
        Some(Self {
            requested_at: millis(requested_at),
            lifetime: millis(lifetime),
            user: UserData {
                permissions: permissions.ok()?,
                claims: Claims::from_members(claims)?,
            },
        })
    }

    /// The time of the request to the IAM by the clocks of this replica; `None` if it is in the future.
    ///
    /// Its age is the greater of two. The one by wall clocks is wrong if the clocks differ. The one by
    /// the store is wrong if the store renewed the lifetime, if an entry reached it late, or if the
    /// clock of a server that took over is behind.
    fn requested_at(&self, remaining: Duration, now: Moment) -> Option<Moment> {
        let by_clocks = (now.unix + CLOCK_DIFFERENCE).checked_sub(self.requested_at)?;
        let age = by_clocks.max(self.lifetime.saturating_sub(remaining));
        Some(Moment {
            unix: now.unix.saturating_sub(age),
            // Zero, from before the start, is distrusted after the first revocation that was missed.
            monotonic: now.monotonic.saturating_sub(age),
        })
    }
}

/// Offers the other replicas, if there are any, what the IAM responded to a request of `requested_at`. It
/// is stored until it is `lifetime` old.
pub(super) fn put(
    replica: &ReplicaState,
    of: &Fingerprint,
    id: RevocationId,
    requested_at: Moment,
    lifetime: Duration,
    user: &UserData,
) {
    let Some(cache) = &replica.replicas.cache else {
        return;
    };
    let now = replica.clock.now();
    let remaining = lifetime.saturating_sub(now.since(requested_at));
    let mut salt = [0; SALT_LEN];
    if remaining.is_zero() || replica.random.fill(&mut salt).is_err() {
        return;
    }
    let content = EntryContent::encode(requested_at.unix, lifetime, user);
    let key_set = replica.keys.signing.key_set();
    let key = key_set.current(now);
    if let Some(entry) = seal(key.derived(), key.kid(), salt, of, content) {
        cache.put(id, entry, remaining);
    }
}

/// The data of another replica, and when the IAM was called for it.
///
/// # Errors
///
/// The result of the look-up.
pub(super) async fn get(
    replica: &ReplicaState,
    cache: &Arc<dyn SharedCache>,
    of: &Fingerprint,
    id: RevocationId,
) -> Result<(Moment, UserData), LookUp> {
    let asked_at = replica.clock.now();
    let stored = cache.get(id).await?;
    let now = replica.clock.now();
    let remaining = stored.remaining.saturating_sub(now.since(asked_at));
    let statement = open(&replica.keys.signing, of, &stored.entry)?;
    let requested_at = statement.requested_at(remaining, now);
    let requested_at = requested_at.ok_or(LookUp::Invalid)?;
    Ok((requested_at, statement.user))
}

/// # Errors
///
/// [`LookUp::Miss`] or [`LookUp::Invalid`].
fn open(
    keys: &KeyStore<SigningKey>,
    of: &Fingerprint,
    entry: &[u8],
) -> Result<EntryContent, LookUp> {
    let parts = split(entry).ok_or(LookUp::Invalid)?;
    let key_set = keys.key_set();
    let key = key_set.iter().find(|key| key.kid() == parts.kid);
    let key = key.ok_or(LookUp::Miss)?;
    let opened = || {
        let aad = additional_data(parts.kid, of);
        let mut text = parts.text.to_vec();
        let key = key.derived::<CacheSealingKey>().of_entry(parts.salt).ok()?;
        let content = key.open_in_place(nonce(), aad, &mut text).ok()?;
        EntryContent::decode(content)
    };
    opened().ok_or(LookUp::Invalid)
}

#[cfg(test)]
mod tests;
