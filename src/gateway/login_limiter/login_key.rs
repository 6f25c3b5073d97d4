//! The key of the hashes under which logins are counted.
//!
//! It is random, and not derived from a sealing key: known networks are kept for a month, and a
//! sealing key may be in use for a day. Replicas exchange it through Redis, encrypted with a key that
//! is derived from the sealing key.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac};
use iam_adapters::Network;
use zeroize::Zeroizing;

use super::Kind;
use crate::gateway::Random;
use crate::gateway::entry_key::{EntryKey, truncated};
use crate::gateway::error::Internal;

const SECRET_LEN: usize = 32;

/// The length of a [`WrappedKey`].
pub const WRAPPED_LEN: usize = 1 + NONCE_LEN + SECRET_LEN + 16;

/// A login key as it is stored in Redis: version, nonce, ciphertext and tag.
pub type WrappedKey = [u8; WRAPPED_LEN];

const VERSION: u8 = 1;

/// Labels of the keys that are derived from a secret. The first two derive from a login key.
const NAMES: &[u8] = b"auth-gateway names of login limits 1";
const ENTRIES: &[u8] = b"auth-gateway entries of login limits 1";
const WRAPPING: &[u8] = b"auth-gateway key of login limits 1";

/// Computes the hashes of accounts and networks, and authenticates the events that replicas share.
pub struct LoginKey {
    secret: Zeroizing<[u8; SECRET_LEN]>,
    names: hmac::Key,
    entries: EntryKey,
}

impl LoginKey {
    /// A new key.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] if the system has no random numbers.
    pub fn generate(random: &dyn Random) -> Result<Self, Internal> {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        random.fill(&mut *secret)?;
        Ok(Self::new(secret))
    }

    /// A key for tests.
    #[cfg(test)]
    pub(crate) fn of_test(secret: [u8; SECRET_LEN]) -> Self {
        Self::new(Zeroizing::new(secret))
    }

    fn new(secret: Zeroizing<[u8; SECRET_LEN]>) -> Self {
        let derived = hmac::Key::new(hmac::HMAC_SHA256, &*secret);
        let key = |label| hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&derived, label).as_ref());
        Self {
            names: key(NAMES),
            entries: EntryKey::new(key(ENTRIES)),
            secret,
        }
    }

    /// Authenticates the events that replicas share.
    #[must_use]
    pub const fn entries(&self) -> &EntryKey {
        &self.entries
    }

    /// The hash of a value. It is never 0. The kind determines how many bytes it has, except for
    /// e-mail addresses.
    pub(super) fn hash(&self, kind: Kind, parts: &[&[u8]]) -> u64 {
        let mut context = hmac::Context::with_key(&self.names);
        context.update(&[kind.tag()]);
        for part in parts {
            context.update(part);
        }
        u64::from_be_bytes(truncated(&context.sign())).max(1)
    }

    /// The hash of a network.
    #[must_use]
    pub fn network(&self, network: Network) -> u64 {
        self.hash(Kind::Network, &[&network.octets()])
    }

    /// Whether replicas with both keys use this one. Any order does: replicas agree, and no replay of
    /// an older key can switch them back and forth.
    pub(super) fn precedes(&self, other: &Self) -> bool {
        self.entries.id() < other.entries.id()
    }
}

impl fmt::Debug for LoginKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginKey([REDACTED])")
    }
}

/// Encrypts login keys for the other replicas.
pub struct WrappingKey(LessSafeKey);

impl WrappingKey {
    /// Derives the key from the sealing key's secret bytes.
    ///
    /// # Errors
    ///
    /// [`Unspecified`] if the library fails. No secret causes that.
    pub fn derive(sealing_secret: &[u8]) -> Result<Self, Unspecified> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]);
        let derived = salt.extract(sealing_secret);
        let key = UnboundKey::from(derived.expand(&[WRAPPING], &AES_256_GCM)?);
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Encrypts a login key. That is so rare that random nonces do not repeat.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] if the system has no random numbers.
    pub fn wrap(&self, key: &LoginKey, random: &dyn Random) -> Result<WrappedKey, Internal> {
        let mut nonce = [0; NONCE_LEN];
        random.fill(&mut nonce)?;
        let mut text = key.secret.to_vec();
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from([VERSION]),
                &mut text,
            )
            .map_err(|_| Internal::Encoding)?;
        let mut wrapped = [0; WRAPPED_LEN];
        let bytes = [VERSION].into_iter().chain(nonce).chain(text);
        wrapped
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = from);
        Ok(wrapped)
    }

    /// Decrypts a login key; `None` if it was not encrypted with this key.
    #[must_use]
    pub fn unwrap(&self, wrapped: &[u8]) -> Option<LoginKey> {
        let wrapped: &WrappedKey = wrapped.try_into().ok()?;
        let (version, rest) = wrapped.split_first()?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>()?;
        let mut text = Zeroizing::new(text.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let aad = Aad::from([*version]);
        let secret = self.0.open_in_place(nonce, aad, &mut text).ok()?;
        let secret: [u8; SECRET_LEN] = (&*secret).try_into().ok()?;
        (*version == VERSION).then(|| LoginKey::new(Zeroizing::new(secret)))
    }
}

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey([REDACTED])")
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;

    use super::*;

    #[derive(Debug)]
    struct FixedRandom(Option<u8>);

    impl Random for FixedRandom {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
            bytes.fill(self.0.ok_or(Internal::Random)?);
            Ok(())
        }
    }

    #[test]
    fn login_key_is_opened_by_the_sealing_key_that_wrapped_it_only() {
        let [one, other] = [1, 2].map(|secret| WrappingKey::derive(&[secret; 32]).unwrap());
        let key = LoginKey::generate(&SystemRandom::new()).unwrap();
        let wrapped = one.wrap(&key, &SystemRandom::new()).unwrap();
        let opened = one.unwrap(&wrapped).unwrap();
        assert_eq!(*opened.secret, *key.secret);
        assert_eq!(
            opened.hash(Kind::Account, &[b"alice"]),
            key.hash(Kind::Account, &[b"alice"])
        );
        assert!(other.unwrap(&wrapped).is_none());
        for at in 0..WRAPPED_LEN {
            let mut changed = wrapped;
            changed[at] ^= 1;
            assert!(one.unwrap(&changed).is_none(), "{at}");
            assert!(one.unwrap(&wrapped[..at]).is_none(), "{at}");
        }
        assert!(!wrapped.windows(8).any(|part| key.secret.starts_with(part)));
    }

    #[test]
    fn new_key_has_the_random_numbers_of_the_given_source_and_needs_them() {
        let key = LoginKey::generate(&FixedRandom(Some(7))).unwrap();
        assert_eq!(*key.secret, [7; SECRET_LEN]);
        let missing = LoginKey::generate(&FixedRandom(None));
        assert_eq!(missing.err(), Some(Internal::Random));
    }

    #[test]
    fn hash_depends_on_the_key_and_on_the_kind() {
        let [one, other] = [(); 2].map(|()| LoginKey::generate(&SystemRandom::new()).unwrap());
        let hash = |key: &LoginKey, kind| key.hash(kind, &[b"alice"]);
        assert_eq!(hash(&one, Kind::Account), hash(&one, Kind::Account));
        assert_ne!(hash(&one, Kind::Account), hash(&other, Kind::Account));
        assert_ne!(hash(&one, Kind::Account), hash(&one, Kind::Sessions));
        let (one, other) = (one.entries(), other.entries());
        assert_ne!(one.id(), other.id());
        assert_ne!(one.tag(b"entry"), other.tag(b"entry"));
    }
}
