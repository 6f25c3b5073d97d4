//! Keys: their files, which one is in use, and which others are still accepted. Users of a key derive
//! their own keys from it, by label.

mod derivation;
mod file;
mod folder;
mod key_store;
mod rotation;
mod sealing_key;
mod signing_key;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Moment;
use iam_adapters::files::{self, Exposed};
use jiff::Timestamp;
use thiserror::Error;

pub use derivation::{DerivationKey, DerivedFrom};
pub(super) use file::is_kid;
pub use file::{KeyFile, KeyPurpose, generate};
pub use folder::{read_dir, remove, write_new};
pub(super) use key_store::timestamp;
pub use key_store::{KeySet, KeyStore, Reloaded};
pub use rotation::{FileTimes, KeyState, Plan, Times, key_states, plan};
pub use sealing_key::SealingKey;
pub use signing_key::{Algorithm, SigningKey};

/// The largest difference of two replicas' clocks, and the longest time until a key file is at every
/// replica.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// How long a new key is published before it is used, if verifiers may cache the published keys for
/// `max_age`. Then every verifier and every replica has it.
#[must_use]
pub const fn lead(max_age: Duration) -> Duration {
    max_age.saturating_add(CLOCK_SKEW)
}

/// How long a key is accepted after its successor's first use, if its tokens are valid for
/// `lifetime`. A replica may use the successor a whole lead late. After that, verifiers need the key
/// until its last token has expired.
#[must_use]
pub const fn overlap(lifetime: Duration, max_age: Duration) -> Duration {
    lifetime.saturating_add(lead(max_age).saturating_mul(2))
}

/// A key that is stored as a file.
pub trait Key: Sized {
    /// What the keys are for.
    const PURPOSE: &'static str;

    /// The key in a file, ready for use.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if it is for another purpose, or fails its self-test.
    fn from_file(file: &KeyFile) -> Result<Self, KeyError>;

    /// Its id, first use and secret.
    fn derivation_key(&self) -> &DerivationKey;

    /// Whether this is the same key as `before`, which had the same id.
    fn is_same(&self, before: &Self) -> bool;

    /// The key's id, unique in its set.
    fn kid(&self) -> &str {
        &self.derivation_key().kid
    }

    /// When every replica begins to use it.
    fn first_use(&self) -> Timestamp {
        self.derivation_key().first_use
    }

    /// What a user of keys has derived from this key. The first call computes it.
    fn derived<T: DerivedFrom<Self>>(&self) -> &Arc<T> {
        let compute = || T::derived_from(self);
        self.derivation_key().derived.get(compute)
    }
}

/// How long the key has been in use, in seconds; negative before its first use.
pub fn age_seconds(key: &impl Key, now: Moment) -> i64 {
    i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX) - key.first_use().as_second()
}

/// What is wrong with a key, a key file, or a folder of them. Contains no key material.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A folder without a `.jwk` file.
    #[error("no key: at least one .jwk file is needed")]
    Empty,
    /// Two keys with one id.
    #[error("two keys have the id {0:?}")]
    Duplicate(String),
    /// Another key with an id that is in use. Verifiers that have cached the old key would refuse its
    /// tokens.
    #[error(
        "the key {0:?} is not the one that had this id before; a new key needs an id of its own"
    )]
    Changed(String),
    /// A file or folder that cannot be read or written.
    #[error("{}: {}", path.display(), files::reason(source))]
    Io {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file that every user of the machine may read or change.
    #[error("{}: {exposed}", path.display())]
    Exposed {
        /// Its path.
        path: PathBuf,
        /// Its mode, and what to do.
        exposed: Exposed,
    },
    /// A file of another user, who may change it.
    #[error(
        "{}: it belongs to user {owner}, and not to root or to user {user}, as whom this program runs; if the key is \
         yours, run: chown {user} {}",
        path.display(),
        path.display()
    )]
    ForeignFile {
        /// Its path.
        path: PathBuf,
        /// The id of its owner.
        owner: u32,
        /// The id of the program's user.
        user: u32,
    },
    /// A folder where every user of the machine may add keys.
    #[error(
        "{}: every user may {} files (mode {mode:04o}); run: chmod o-w {}, or mount it read-only",
        path.display(),
        // The sticky bit leaves the removal to the owners.
        if mode & 0o1000 == 0 { "add and remove" } else { "add" },
        path.display()
    )]
    WritableFolder {
        /// Its path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Several problems of a folder.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<KeyError>),
    /// A file that is not a key for this purpose.
    #[error("{path}: {reason}")]
    InvalidFile {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: Box<KeyError>,
    },
    /// Not a JWK (RFC 7517) for this purpose.
    #[error("{0}")]
    Invalid(&'static str),
    /// Its signature cannot be verified, or its sealed text cannot be opened.
    #[error("the key fails its self-test")]
    SelfTest,
    /// A key on which the JOSE library panics.
    #[error("the JOSE library panics on this key")]
    Panicked,
}

impl KeyError {
    /// Each problem.
    #[must_use]
    pub fn each(&self) -> &[Self] {
        match self {
            Self::Several(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }
}

#[cfg(test)]
mod tests;
