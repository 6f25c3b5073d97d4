//! Key rings: which key signs or seals now, and which are still honoured.

mod file;
mod signing;

use std::path::PathBuf;
use std::time::Duration;

use iam_adapters::Moment;
use jiff::Timestamp;
use thiserror::Error;

pub use file::{KeyFile, KeyPurpose, generate, load_sealing, load_signing, read_dir, write_new};
pub use signing::{Algorithm, SigningKey};

use super::seal::SealingKey;

/// Allowed for clocks that disagree, wherever one replica's idea of the time meets another's.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// A key and the moment from which it is used.
pub trait Dated {
    /// The key's id, unique in its ring.
    fn kid(&self) -> &str;
    /// When every replica begins to use it.
    fn first_use(&self) -> Timestamp;
}

/// The keys of one purpose, in the order of their first use. Never empty.
#[derive(Debug)]
pub struct KeyRing<K> {
    first: K,
    later: Vec<K>,
}

impl<K: Dated> KeyRing<K> {
    /// Puts keys in their order.
    ///
    /// # Errors
    ///
    /// [`KeyError::Empty`] or [`KeyError::Duplicate`].
    pub fn new(mut keys: Vec<K>) -> Result<Self, KeyError> {
        keys.sort_by_key(Dated::first_use);
        let mut kids: Vec<_> = keys.iter().map(Dated::kid).collect();
        kids.sort_unstable();
        if let Some(kid) = kids
            .iter()
            .zip(kids.iter().skip(1))
            .find_map(|(a, b)| (a == b).then_some(*a))
        {
            return Err(KeyError::Duplicate(kid.to_owned()));
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or(KeyError::Empty)?;
        Ok(Self {
            first,
            later: keys.collect(),
        })
    }

    /// The key in use: the last whose first use has come. Before the first of all has come, that
    /// one: a replica whose clock is behind must not stand without a key.
    pub fn current(&self, now: Moment) -> &K {
        self.later
            .iter()
            .rev()
            .find(|key| has_come(key.first_use(), now))
            .unwrap_or(&self.first)
    }

    /// Every key, in the order of first use.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        std::iter::once(&self.first).chain(&self.later)
    }

    /// The keys not yet retired: a key is honoured for `overlap` after its successor's first use.
    pub fn honoured(&self, now: Moment, overlap: Duration) -> impl Iterator<Item = &K> {
        let overlap = jiff::SignedDuration::try_from(overlap).unwrap_or(jiff::SignedDuration::MAX);
        self.iter()
            .zip(self.later.iter().map(Some).chain([None]))
            .filter_map(move |(key, successor)| {
                let retired = successor.is_some_and(|next| {
                    has_come(
                        next.first_use()
                            .saturating_add(overlap)
                            .unwrap_or(Timestamp::MAX),
                        now,
                    )
                });
                (!retired).then_some(key)
            })
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        1 + self.later.len()
    }
}

fn has_come(time: Timestamp, now: Moment) -> bool {
    i128::from(time.as_second()) <= i128::from(now.unix_seconds())
}

/// How long the key has been in use, in seconds; negative before its first use.
pub fn age_seconds(key: &impl Dated, now: Moment) -> i64 {
    i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX) - key.first_use().as_second()
}

/// All keys of one gateway.
#[derive(Debug)]
pub struct Keys {
    /// What signs access tokens.
    pub signing: KeyRing<SigningKey>,
    /// What seals session tokens.
    pub sealing: KeyRing<SealingKey>,
}

impl Keys {
    /// Keys that live and die with this process: for development alone, since after a restart
    /// nobody honours what they signed and sealed.
    ///
    /// # Errors
    ///
    /// [`KeyError`] where the machine cannot make random numbers.
    pub fn ephemeral(now: Moment) -> Result<Self, KeyError> {
        let first_use = Timestamp::from_second(i64::try_from(now.unix_seconds()).unwrap_or(0))
            .unwrap_or(Timestamp::UNIX_EPOCH);
        let signing = generate(KeyPurpose::Signing(Algorithm::Es256), first_use)?;
        let sealing = generate(KeyPurpose::Sealing, first_use)?;
        Ok(Self {
            signing: KeyRing::new(vec![signing.to_signing()?])?,
            sealing: KeyRing::new(vec![sealing.to_sealing()?])?,
        })
    }
}

/// What is wrong with a key, a key file, or a folder of them. Holds no key material.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A folder without a single `.jwk` file.
    #[error("no key: at least one .jwk file is needed")]
    Empty,
    /// Two keys with one id.
    #[error("two keys have the id {0:?}")]
    Duplicate(String),
    /// A file or folder that cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that anybody on the machine may read or change.
    #[error("{0}: open to everybody; take that right away (chmod o-rw)")]
    Exposed(PathBuf),
    /// A file that is not a key for this purpose.
    #[error("{path}: {reason}")]
    InvalidFile {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        reason: Box<KeyError>,
    },
    /// Not a JWK (RFC 7517) of the kind needed.
    #[error("{0}")]
    Invalid(&'static str),
    /// A key that does not do what it is for: what it signed is not what its public half verifies.
    #[error("the key fails its self-test")]
    SelfTest,
}

#[cfg(test)]
mod tests;
