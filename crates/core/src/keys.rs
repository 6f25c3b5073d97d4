//! The keys: which one is in use, and which others are still accepted.

mod comparison;
mod file;
mod folder;
mod key_store;
mod rotation;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::rand::SystemRandom;
use iam_adapters::Moment;
use iam_adapters::files::{self, Exposed};
use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

pub use super::access_token::{Algorithm, SigningKey};
pub(super) use file::is_meant_for;
pub use file::{KeyFile, KeyPurpose, generate};
pub use folder::{read_dir, remove, write_new};
pub use key_store::{KeySet, KeyStore, Reloaded};
pub use rotation::{FileTimes, KeyState, Plan, Times, key_states, plan};

use super::identifiers::IdentifierKey;
use super::session::SealingKey;

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

/// What the key of identifiers is for, where keys are named.
pub const IDENTIFIERS: &str = "identifier";

/// The age from which a sealing key is overdue for rotation. With random nonces a key may seal 2^32
/// sessions on all replicas together (NIST SP 800-38D section 8.3): 49 days with 1,000 logins a
/// second. A rotation every 30 days that runs once a day lets it become 31 days old. One more day is
/// for a run that failed.
const SEALING_KEY_AGE_MAX: Duration = Duration::from_secs(32 * 24 * 3600);

/// A key and the time of its first use.
pub trait Key {
    /// The key's id, unique in its set.
    fn kid(&self) -> &str;
    /// When every replica begins to use it.
    fn first_use(&self) -> Timestamp;
}

/// A key that is stored as a file.
pub trait StoredKey: Key + Sized {
    /// What the keys are for.
    const PURPOSE: &'static str;

    /// The key in a file, ready for use.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if it is for another purpose, or fails its self-test.
    fn from_file(file: &KeyFile) -> Result<Self, KeyError>;

    /// Whether this is the same key as `before`, which had the same id.
    fn is_same(&self, before: &Self) -> bool;
}

/// How long the key has been in use, in seconds; negative before its first use.
pub fn age_seconds(key: &impl Key, now: Moment) -> i64 {
    i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX) - key.first_use().as_second()
}

/// All keys of one gateway. Each purpose has its own store, so a problem with one folder does not
/// affect the other.
#[derive(Debug)]
pub struct Keys {
    /// The keys that sign access tokens.
    pub signing: KeyStore<SigningKey>,
    /// The keys that seal session tokens.
    pub sealing: KeyStore<SealingKey>,
    /// The key of identifiers.
    pub identifiers: Arc<IdentifierKey>,
    differences: ArcSwap<Vec<KeyWarning>>,
}

impl Keys {
    /// These keys.
    #[must_use]
    pub fn new(
        signing: KeyStore<SigningKey>,
        sealing: KeyStore<SealingKey>,
        identifiers: Arc<IdentifierKey>,
    ) -> Self {
        Self {
            signing,
            sealing,
            identifiers,
            differences: ArcSwap::default(),
        }
    }

    /// Keys that exist only in this process. For development only: after a restart, all tokens are
    /// invalid.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the system has no random numbers.
    pub fn ephemeral(now: Moment) -> Result<Self, KeyError> {
        let first_use = key_store::timestamp(now);
        let signing = generate(KeyPurpose::Signing(Algorithm::Es256), first_use)?;
        let sealing = generate(KeyPurpose::Sealing, first_use)?;
        let identifiers = IdentifierKey::generate(&SystemRandom::new())
            .map_err(|_| KeyError::Invalid("no random numbers"))?;
        Ok(Self::new(
            KeySet::new(vec![signing.to_signing()?])?.into(),
            KeySet::new(vec![sealing.to_sealing()?])?.into(),
            Arc::new(identifiers),
        ))
    }

    /// The public JWK Set of the signing keys (RFC 7517 section 5). A key that is no longer used is in
    /// it until its last access token has expired. Tokens are valid for `lifetime`, and verifiers may
    /// cache the set for `max_age`.
    #[must_use]
    pub fn published(&self, lifetime: Duration, max_age: Duration, now: Moment) -> Value {
        let key_set = self.signing.key_set();
        let honoured = key_set.honoured(now, overlap(lifetime, max_age));
        let keys: Vec<_> = honoured.map(SigningKey::public_jwk).collect();
        json!({ "keys": keys })
    }

    /// The ids of the keys, by purpose, in the order of first use.
    #[must_use]
    pub fn kids(&self) -> [(&'static str, Vec<String>); 2] {
        fn kids<K: Key>(keys: &KeyStore<K>) -> Vec<String> {
            let key_set = keys.key_set();
            key_set.iter().map(|key| key.kid().to_owned()).collect()
        }
        [
            (SigningKey::PURPOSE, kids(&self.signing)),
            (SealingKey::PURPOSE, kids(&self.sealing)),
        ]
    }

    /// Reads the folders again. Returns the new key sets that differ from before, by purpose.
    pub fn reload(&self, now: Moment) -> impl Iterator<Item = (&'static str, Reloaded)> {
        let signing = self.signing.reload(now);
        let sealing = self.sealing.reload(now);
        let signing = signing.map(|reloaded| (SigningKey::PURPOSE, reloaded));
        let sealing = sealing.map(|reloaded| (SealingKey::PURPOSE, reloaded));
        signing.into_iter().chain(sealing)
    }

    /// Problems that need the operator. Contains no key material.
    #[must_use]
    pub fn warnings(&self, now: Moment) -> Vec<KeyWarning> {
        let unreadable = [
            (SigningKey::PURPOSE, self.signing.problem()),
            (SealingKey::PURPOSE, self.sealing.problem()),
        ]
        .into_iter()
        .filter_map(|(purpose, problem)| {
            let problem = problem?;
            Some(KeyWarning::Unreadable { purpose, problem })
        });
        let key_set = self.sealing.key_set();
        let sealing = key_set.current(now);
        let old = age_seconds(sealing, now) > SEALING_KEY_AGE_MAX.as_secs().cast_signed();
        let old = old.then(|| KeyWarning::SealingKeyOld {
            kid: sealing.kid().to_owned(),
            first_use: sealing.first_use(),
        });
        let differences = self.differences.load();
        let differences = differences.iter().cloned();
        unreadable.chain(old).chain(differences).collect()
    }
}

/// A problem with the keys that needs the operator and stops no operation. Contains no key material.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyWarning {
    /// A folder has changed and cannot be used.
    #[error(
        "the {purpose} keys read before stay in use, because they cannot be read again: {problem}"
    )]
    Unreadable {
        /// What the keys are for.
        purpose: &'static str,
        /// What is wrong with the folder.
        problem: Arc<String>,
    },
    /// The sealing key in use should have been rotated.
    #[error("the sealing key {kid} has been in use since {first_use:.0}: rotate it every 30 days")]
    SealingKeyOld {
        /// Its id.
        kid: String,
        /// Its first use.
        first_use: Timestamp,
    },
    /// A replica uses keys that another one does not have.
    #[error(
        "the keys of the replicas differ: keys.{} of {} lacks {purpose} keys that {} uses: {}",
        if *purpose == IDENTIFIERS { "identifier_key".to_owned() } else { format!("{purpose}_dir") },
        if *is_here { "this replica" } else { "another replica" },
        if *is_here { "another replica" } else { "this replica" },
        kids.join(", ")
    )]
    Missing {
        /// What the keys are for.
        purpose: &'static str,
        /// Whether this replica does not have them; otherwise another one.
        is_here: bool,
        /// Their ids.
        kids: Vec<String>,
    },
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
