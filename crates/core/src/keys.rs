//! Keys: their files, which one is in use, and which others are still accepted. Users of a key derive
//! their own keys from it, by label.

mod file;
mod folder;
mod rotation;
mod sealing_key;
mod signing_key;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use iam_adapters::Moment;
use iam_adapters::files::{self, Exposed};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use thiserror::Error;
use zeroize::Zeroizing;

pub(super) use file::is_kid;
pub use file::{KeyFile, KeyPurpose, generate};
use folder::Folder;
pub use folder::{read_dir, remove, write_new};
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

/// The length of a derived secret: that of SHA-256.
const SECRET_LEN: usize = 32;

/// The secret of a key, from which others are derived (HKDF-SHA256, RFC 5869).
pub struct DerivationKey {
    kid: String,
    first_use: Timestamp,
    extracted: hmac::Key,
    derived: DerivedValues,
}

impl DerivationKey {
    /// With the secret bytes of a key. The extraction has no salt (section 2.2).
    #[must_use]
    pub fn new(secret: &[u8], kid: &str, first_use: Timestamp) -> Self {
        let salt = hmac::Key::new(HMAC_SHA256, &[0; SECRET_LEN]);
        let extracted = hmac::sign(&salt, secret);
        Self {
            kid: kid.to_owned(),
            first_use,
            extracted: hmac::Key::new(HMAC_SHA256, extracted.as_ref()),
            derived: DerivedValues::default(),
        }
    }

    /// The secret with this label. Its expansion is one HMAC (section 2.3), which never fails.
    #[must_use]
    pub fn derive(&self, label: &[u8]) -> Zeroizing<[u8; SECRET_LEN]> {
        let mut context = hmac::Context::with_key(&self.extracted);
        context.update(label);
        context.update(&[1]);
        let tag = context.sign();
        Zeroizing::new(tag.as_ref().first_chunk().copied().unwrap_or_default())
    }

    /// The key for HMAC-SHA256 with this label.
    #[must_use]
    pub fn derive_hmac_key(&self, label: &[u8]) -> hmac::Key {
        hmac::Key::new(HMAC_SHA256, &*self.derive(label))
    }
}

/// What a user of keys needs of each key, computed once and kept with the key: see [`Key::derived`].
pub trait DerivedFrom<K: Key>: Send + Sync + 'static {
    /// Computes it. Must not call [`Key::derived`] of this key.
    fn derived_from(key: &K) -> Self;
}

/// A list with one value of each type. A value is computed when it is first needed. Reading takes no lock.
#[derive(Default)]
struct DerivedValues(OnceLock<Box<Node>>);

struct Node {
    value: Box<dyn Any + Send + Sync>,
    next: DerivedValues,
}

impl DerivedValues {
    fn get<T: Send + Sync + 'static>(&self, compute: impl Fn() -> T) -> &Arc<T> {
        let mut list = self;
        loop {
            let node = list.0.get_or_init(|| {
                Box::new(Node {
                    value: Box::new(Arc::new(compute())),
                    next: Self::default(),
                })
            });
            match node.value.downcast_ref() {
                Some(value) => return value,
                None => list = &node.next,
            }
        }
    }
}

/// How long the key has been in use, in seconds; negative before its first use.
pub fn age_seconds(key: &impl Key, now: Moment) -> i64 {
    i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX) - key.first_use().as_second()
}

/// The keys of one purpose, and their folder: a set that is replaced as a whole when the folder changes. If
/// the folder is then invalid, the set stays.
#[derive(derive_more::Debug)]
#[debug("KeyStore {{ key_set: {:?}, folder: {folder:?}, .. }}", self.key_set.load())]
#[debug(bound(K: std::fmt::Debug))]
pub struct KeyStore<K> {
    key_set: ArcSwap<KeySet<K>>,
    folder: Option<PathBuf>,
    times: Times,
    /// Why the current content of the folder is not used.
    problem: ArcSwapOption<String>,
    /// The digest of the folder when it was last read; `None` if it could not be read.
    last_digest: Mutex<Option<Vec<u8>>>,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// A set of keys that replaced another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Their ids, in the order of first use.
    pub kids: Vec<String>,
    /// Those that are used later than their files say, and when: verifiers may not have them yet.
    pub delayed: Vec<(String, Timestamp)>,
}

impl<K> From<KeySet<K>> for KeyStore<K> {
    fn from(key_set: KeySet<K>) -> Self {
        Self {
            key_set: ArcSwap::from_pointee(key_set),
            folder: None,
            times: Times::default(),
            problem: ArcSwapOption::empty(),
            last_digest: Mutex::default(),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl<K> KeyStore<K> {
    /// The current keys. Do not keep the guard for long.
    pub fn key_set(&self) -> Guard<Arc<KeySet<K>>> {
        self.key_set.load()
    }

    /// How long a key is accepted after its successor's first use, if its tokens are valid for `lifetime`: see
    /// [`overlap`].
    pub const fn overlap(&self, lifetime: Duration) -> Duration {
        overlap(lifetime, self.times.max_age)
    }

    /// The durations that determine how long its keys are needed.
    pub const fn times(&self) -> Times {
        self.times
    }

    /// What is wrong with the folder. Other replicas may then have keys that are unknown here.
    pub fn problem(&self) -> Option<Arc<String>> {
        self.problem.load_full()
    }

    /// How often the keys were replaced.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How often a changed folder was refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl<K: Key> KeyStore<K> {
    /// The keys of a folder, for a replica that starts.
    ///
    /// # Errors
    ///
    /// [`KeyError`] with the file or the folder.
    pub fn open(path: PathBuf, now: Moment, times: Times) -> Result<Self, KeyError> {
        let folder = Folder::read(&path)?;
        let digest = folder.digest();
        let key_set = KeySet::found(folder.keys()?, now, times.max_age)
            .map_err(|reason| folder::invalid(&path, reason))?;
        Ok(Self {
            last_digest: Mutex::new(digest),
            folder: Some(path),
            times,
            ..Self::from(key_set)
        })
    }

    /// Reads the folder again, and replaces the keys if all files are valid. Blocks. Returns the new
    /// set if it differs from the last one.
    pub fn reload(&self, now: Moment) -> Option<Reloaded> {
        let path = self.folder.as_deref()?;
        let mut last_digest = self.last_digest.lock();
        let folder = Folder::read(path);
        let digest = folder.as_ref().ok().and_then(Folder::digest);
        if digest.is_some() && digest == *last_digest {
            return None;
        }
        *last_digest = digest;
        let before = self.key_set.load();
        let key_set = folder.and_then(|folder| {
            KeySet::succeeding(&before, folder.keys()?, now, self.times.max_age)
                .map_err(|reason| folder::invalid(path, reason))
        });
        match key_set {
            Ok(key_set) => self.replace(&before, key_set, now),
            Err(error) => {
                self.refuse(error.to_string());
                None
            }
        }
    }

    fn replace(&self, before: &KeySet<K>, key_set: KeySet<K>, now: Moment) -> Option<Reloaded> {
        let delayed = key_set.delayed(now);
        let reloaded = Reloaded {
            kids: key_set.iter().map(|key| key.kid().to_owned()).collect(),
            delayed: delayed
                .map(|(key, begins)| (key.kid().to_owned(), begins))
                .collect(),
        };
        let same = key_set.iter().map(named).eq(before.iter().map(named));
        self.key_set.store(Arc::new(key_set));
        self.problem.store(None);
        if same {
            return None;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(reloaded)
    }

    fn refuse(&self, problem: String) {
        let problem = Some(Arc::new(problem));
        if self.problem.swap(problem.clone()) != problem {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn named<K: Key>(key: &K) -> (&str, Timestamp) {
    (key.kid(), key.first_use())
}

/// The keys of one purpose, in the order of their first use. Never empty.
#[derive(Debug)]
pub struct KeySet<K> {
    first: ScheduledKey<K>,
    later: Vec<ScheduledKey<K>>,
}

#[derive(Debug)]
struct ScheduledKey<K> {
    key: K,
    /// Since when verifiers can have fetched it, as far as this replica knows.
    published: Timestamp,
    /// From when on this replica uses it.
    begins: Timestamp,
}

impl<K: Key> KeySet<K> {
    /// A set of keys that are used from their first use on.
    ///
    /// # Errors
    ///
    /// [`KeyError::Empty`] or [`KeyError::Duplicate`].
    pub fn new(keys: Vec<K>) -> Result<Self, KeyError> {
        let slot = |key: K| ScheduledKey {
            published: key.first_use(),
            begins: key.first_use(),
            key,
        };
        Self::ordered(keys.into_iter().map(slot).collect())
    }

    /// The keys that a replica finds when it starts. Verifiers have them since their first use, or not
    /// yet.
    ///
    /// # Errors
    ///
    /// As [`KeySet::new`].
    pub fn found(keys: Vec<K>, now: Moment, max_age: Duration) -> Result<Self, KeyError> {
        let slot = |key: K| {
            let published = key.first_use().min(timestamp(now));
            ScheduledKey::published_since(published, key, max_age)
        };
        Self::ordered(keys.into_iter().map(slot).collect())
    }

    fn ordered(mut slots: Vec<ScheduledKey<K>>) -> Result<Self, KeyError> {
        slots.sort_by_key(|slot| slot.key.first_use());
        let mut kids: Vec<_> = slots.iter().map(|slot| slot.key.kid()).collect();
        kids.sort_unstable();
        if let Some(kid) = kids
            .iter()
            .zip(kids.iter().skip(1))
            .find_map(|(a, b)| (a == b).then_some(*a))
        {
            return Err(KeyError::Duplicate(kid.to_owned()));
        }
        let mut slots = slots.into_iter();
        let first = slots.next().ok_or(KeyError::Empty)?;
        Ok(Self {
            first,
            later: slots.collect(),
        })
    }

    /// The key in use: the last one that has begun. If none has begun, the first one: a replica whose
    /// clock is behind needs a key too.
    pub fn current(&self, now: Moment) -> &K {
        &self.current_slot(now).key
    }

    fn current_slot(&self, now: Moment) -> &ScheduledKey<K> {
        self.later
            .iter()
            .rev()
            .find(|slot| has_come(slot.begins, now))
            .unwrap_or(&self.first)
    }

    fn slots(&self) -> impl Iterator<Item = &ScheduledKey<K>> {
        std::iter::once(&self.first).chain(&self.later)
    }

    /// Every key, in the order of first use.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.slots().map(|slot| &slot.key)
    }

    /// The keys that are still accepted: a key is accepted for `overlap` after its successor began.
    pub fn honoured(&self, now: Moment, overlap: Duration) -> impl Iterator<Item = &K> {
        self.slots()
            .zip(self.later.iter().map(Some).chain([None]))
            .filter_map(move |(slot, successor)| {
                let retired =
                    successor.is_some_and(|next| has_come(after(next.begins, overlap), now));
                (!retired).then_some(&slot.key)
            })
    }

    /// The keys that have begun and of which tokens that are valid for this long may exist. A rotation
    /// removes none of them: it waits for longer, so that a replica whose clock is behind has ended too.
    pub fn relied_on(&self, now: Moment, times: Times) -> impl Iterator<Item = &K> {
        let last = self.current(now).first_use();
        let honoured = self.honoured(now, times.lifetime.saturating_add(lead(times.max_age)));
        honoured.filter(move |key| key.first_use() <= last)
    }

    /// The keys that have not begun and that begin later than their files say, and when. The first key
    /// of the set is in use in any case.
    pub fn delayed(&self, now: Moment) -> impl Iterator<Item = (&K, Timestamp)> {
        self.later
            .iter()
            .filter(move |slot| slot.begins > slot.key.first_use() && !has_come(slot.begins, now))
            .map(|slot| (&slot.key, slot.begins))
    }

    /// The number of keys.
    pub fn count(&self) -> usize {
        1 + self.later.len()
    }
}

impl<K: Key> KeySet<K> {
    /// The keys that a running replica finds in its folder. A new key is used after it was published
    /// for long enough, whatever its file contains. But if the key in use was removed, the next one is used
    /// at once.
    ///
    /// # Errors
    ///
    /// As [`KeySet::new`], and [`KeyError::Changed`].
    pub fn succeeding(
        before: &Self,
        keys: Vec<K>,
        now: Moment,
        max_age: Duration,
    ) -> Result<Self, KeyError> {
        let slot = |key: K| {
            let known = before.slots().find(|slot| slot.key.kid() == key.kid());
            let Some(known) = known else {
                return Ok(ScheduledKey::published_since(timestamp(now), key, max_age));
            };
            if !key.is_same(&known.key) {
                return Err(KeyError::Changed(key.kid().to_owned()));
            }
            if key.first_use() == known.key.first_use() {
                let (published, begins) = (known.published, known.begins);
                return Ok(ScheduledKey {
                    key,
                    published,
                    begins,
                });
            }
            Ok(ScheduledKey::published_since(known.published, key, max_age))
        };
        let mut key_set = Self::ordered(keys.into_iter().map(slot).collect::<Result<_, _>>()?)?;
        let used = &before.current_slot(now).key;
        if key_set.iter().all(|key| key.kid() != used.kid()) {
            let mut slots = std::iter::once(&mut key_set.first).chain(&mut key_set.later);
            if let Some(next) = slots.find(|slot| slot.key.first_use() >= used.first_use()) {
                next.begins = next.begins.min(timestamp(now));
            }
        }
        Ok(key_set)
    }
}

impl<K: Key> ScheduledKey<K> {
    fn published_since(published: Timestamp, key: K, max_age: Duration) -> Self {
        let begins = begins(published, key.first_use(), max_age);
        Self {
            key,
            published,
            begins,
        }
    }
}

/// When a replica begins to use a key that verifiers can have fetched since `published`: at its first
/// use or, if that is too early for them, a lead after `published`.
fn begins(published: Timestamp, first_use: Timestamp, max_age: Duration) -> Timestamp {
    if after(published, max_age) <= first_use {
        first_use
    } else {
        after(published, lead(max_age))
    }
}

/// The sum, or the last possible time.
fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

fn has_come(time: Timestamp, now: Moment) -> bool {
    i128::from(time.as_second()) <= i128::from(now.unix_seconds())
}

pub(crate) fn timestamp(now: Moment) -> Timestamp {
    let seconds = i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
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
    #[error("{}: {}", .0.display(), files::reason(.1))]
    Io(PathBuf, #[source] std::io::Error),
    /// A file that every user of the machine may read or change.
    #[error("{0}: {1}")]
    Exposed(PathBuf, Exposed),
    /// A file of another user, who may change it.
    #[error("{path}: {}", foreign_file(path, *owner, *user))]
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
        "{path}: every user may {} files (mode {mode:04o}); run: chmod o-w {path}, or mount it read-only",
        // The sticky bit leaves the removal to the owners.
        if mode & 0o1000 == 0 { "add and remove" } else { "add" }
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
    #[error("{0}: {1}")]
    InvalidFile(PathBuf, Box<KeyError>),
    /// Not a JWK (RFC 7517) for this purpose.
    #[error("{0}")]
    Invalid(&'static str),
    /// Its signature cannot be verified.
    #[error("the key fails its self-test")]
    SelfTest,
    /// A key on which the JOSE library panics.
    #[error("the JOSE library panics on this key")]
    Panicked,
}

/// Whose a key file is, and how the program can read it.
fn foreign_file(path: &Path, owner: u32, user: u32) -> String {
    if user == files::ROOT {
        // Without `chown`, which would take the key from the gateway: its user can read no file of root.
        return format!(
            "it belongs to user {owner}, and not to root, as whom this program runs; run it as user {owner}"
        );
    }
    format!(
        "it belongs to user {owner}, and not to root or to user {user}, as whom this program runs; run it as user \
         {owner} or, if the key is yours, run: chown {user} {}",
        path.display()
    )
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
