//! The keys: which one signs or seals now, and which others are still accepted.

mod file;
mod folder;
mod key_store;
mod rotation;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Moment;
use iam_adapters::files::{self, Exposed};
use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

pub use super::access_token::{Algorithm, SigningKey};
pub(super) use file::is_meant_for;
pub use file::{KeyFile, KeyPurpose, generate};
pub use folder::{read_dir, remove, write_new};
pub use key_store::{KeySet, KeyStore, Taken};
pub use rotation::{FileTimes, Plan, Standing, Times, plan, standing};

use super::session::SealingKey;

/// Allowed for clocks that disagree, wherever one replica's idea of the time meets another's, and
/// for a key file to reach every replica.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// How long a new key is published before it is used, where others may keep the published keys for
/// `max_age`: then every verifier knows it, and every replica opens what it seals.
#[must_use]
pub const fn lead(max_age: Duration) -> Duration {
    max_age.saturating_add(CLOCK_SKEW)
}

/// How long a key is honoured after its successor's first use, where what it signed or sealed lives
/// for `lifetime`. A replica may begin with the successor a whole lead late; and verifiers must
/// know the key for as long after that as anything it signed lives.
#[must_use]
pub const fn overlap(lifetime: Duration, max_age: Duration) -> Duration {
    lifetime.saturating_add(lead(max_age).saturating_mul(2))
}

/// The age from which a sealing key is overdue for rotation. With random nonces a key may seal 2^32
/// sessions on all replicas together (NIST SP 800-38D section 8.3), which 1,000 logins a second
/// reach in 49 days. Rotation every 30 days, run once a day, lets it become 31 days old; a day more
/// is for a run that failed.
const SEALING_KEY_AGE_MAX: Duration = Duration::from_secs(32 * 24 * 3600);

/// A key and the moment from which it is used.
pub trait Dated {
    /// The key's id, unique in its set.
    fn kid(&self) -> &str;
    /// When every replica begins to use it.
    fn first_use(&self) -> Timestamp;
}

/// A key that is kept in a folder of its kind.
pub trait Kept: Dated + Sized {
    /// What such keys are for.
    const PURPOSE: &'static str;

    /// The key in a file, ready for use.
    ///
    /// # Errors
    ///
    /// [`KeyError`] where it is for another purpose, or fails its self-test.
    fn from_file(file: &KeyFile) -> Result<Self, KeyError>;

    /// Whether this is the same key as `before`, which had the same id.
    fn is_same(&self, before: &Self) -> bool;
}

/// How long the key has been in use, in seconds; negative before its first use.
pub fn age_seconds(key: &impl Dated, now: Moment) -> i64 {
    i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX) - key.first_use().as_second()
}

/// All keys of one gateway. Each purpose has its own store: a problem with one does not keep the
/// other from changing.
#[derive(Debug)]
pub struct Keys {
    /// What signs access tokens.
    pub signing: KeyStore<SigningKey>,
    /// What seals session tokens.
    pub sealing: KeyStore<SealingKey>,
}

impl Keys {
    /// Keys that live and die with this process: for development alone, since after a restart
    /// nobody honours what they signed and sealed.
    ///
    /// # Errors
    ///
    /// [`KeyError`] where the machine cannot make random numbers.
    pub fn ephemeral(now: Moment) -> Result<Self, KeyError> {
        let first_use = key_store::timestamp(now);
        let signing = generate(KeyPurpose::Signing(Algorithm::Es256), first_use)?;
        let sealing = generate(KeyPurpose::Sealing, first_use)?;
        Ok(Self {
            signing: KeySet::new(vec![signing.to_signing()?])?.into(),
            sealing: KeySet::new(vec![sealing.to_sealing()?])?.into(),
        })
    }

    /// What is published of the signing keys: a JWK Set (RFC 7517 section 5). A key that signs no
    /// more is in it until the last of its tokens, which live for `lifetime`, has expired wherever
    /// a copy of the set is kept for `max_age`.
    #[must_use]
    pub fn published(&self, lifetime: Duration, max_age: Duration, now: Moment) -> Value {
        let key_set = self.signing.key_set();
        let honoured = key_set.honoured(now, overlap(lifetime, max_age));
        let keys: Vec<_> = honoured.map(SigningKey::public_jwk).collect();
        json!({ "keys": keys })
    }

    /// Looks at the folders again, and gives, by purpose, the keys that are others than before.
    pub fn reload(&self, now: Moment) -> impl Iterator<Item = (&'static str, Taken)> {
        let signing = self.signing.reload(now);
        let sealing = self.sealing.reload(now);
        let signing = signing.map(|taken| (SigningKey::PURPOSE, taken));
        let sealing = sealing.map(|taken| (SealingKey::PURPOSE, taken));
        signing.into_iter().chain(sealing)
    }

    /// What an operator should see to. Holds no key material.
    #[must_use]
    pub fn concerns(&self, now: Moment) -> Vec<Concern> {
        let unreadable = [
            (SigningKey::PURPOSE, self.signing.problem()),
            (SealingKey::PURPOSE, self.sealing.problem()),
        ]
        .into_iter()
        .filter_map(|(purpose, problem)| {
            let problem = problem?;
            Some(Concern::Unreadable { purpose, problem })
        });
        let key_set = self.sealing.key_set();
        let sealing = key_set.current(now);
        let old = age_seconds(sealing, now) > SEALING_KEY_AGE_MAX.as_secs().cast_signed();
        let old = old.then(|| Concern::SealingKeyOld {
            kid: sealing.kid().to_owned(),
            first_use: sealing.first_use(),
        });
        unreadable.chain(old).collect()
    }
}

/// Something about the keys that needs attention and stops nothing. Holds no key material.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Concern {
    /// A folder changed and cannot be used as it is.
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
    #[error("the sealing key {kid} is in use since {first_use:.0}: rotate it every 30 days")]
    SealingKeyOld {
        /// Its id.
        kid: String,
        /// Since when it is used.
        first_use: Timestamp,
    },
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
    /// Another key under an id that is in use. Verifiers that keep the old one would refuse all
    /// that it signs.
    #[error(
        "the key {0:?} is not the one that had this id before; a new key needs an id of its own"
    )]
    Changed(String),
    /// A file or folder that cannot be read or written.
    #[error("{}: {}", path.display(), files::reason(source))]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that anybody on the machine may read or change.
    #[error("{}: {exposed}", path.display())]
    Exposed {
        /// Which one.
        path: PathBuf,
        /// Its mode, and what to do.
        exposed: Exposed,
    },
    /// A folder to which anybody on the machine may add keys, and from which to remove them.
    #[error(
        "{}: everybody may add and remove files (mode {mode:04o}); run: chmod o-w {}",
        path.display(),
        path.display()
    )]
    WritableFolder {
        /// Which one.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// More than one thing is wrong with a folder.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<KeyError>),
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
    /// A key that does not do what it is for: what it signed is not what its public half verifies,
    /// or what it sealed does not open.
    #[error("the key fails its self-test")]
    SelfTest,
    /// A key that the library of JOSE formats cannot even refuse.
    #[error("the key makes its reader panic")]
    Panicked,
}

impl KeyError {
    /// Each thing that is wrong, by itself.
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
