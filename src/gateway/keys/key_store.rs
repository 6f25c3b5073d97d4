//! The keys of one purpose while they are used: a set that is replaced as a whole when its folder
//! changes, and kept when the folder is invalid.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use iam_adapters::Moment;
use jiff::{SignedDuration, Timestamp};

use super::folder::{self, Folder};
use super::{Dated, Kept, KeyError, lead};

/// The keys of one purpose, and the folder that they come from.
pub struct KeyStore<K> {
    key_set: ArcSwap<KeySet<K>>,
    folder: Option<PathBuf>,
    max_age: Duration,
    /// Why the folder as it is now was not taken.
    problem: ArcSwapOption<String>,
    /// By which the folder is known again, as it was at the last look; none where it could not be
    /// read.
    seen: Mutex<Option<Vec<u8>>>,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// A new set of keys that is used from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The ids of all of them, in the order of first use.
    pub kids: Vec<String>,
    /// Those that begin later than their files say, and when: others may not have seen them yet.
    pub held_back: Vec<(String, Timestamp)>,
}

impl<K> From<KeySet<K>> for KeyStore<K> {
    fn from(key_set: KeySet<K>) -> Self {
        Self {
            key_set: ArcSwap::from_pointee(key_set),
            folder: None,
            max_age: Duration::ZERO,
            problem: ArcSwapOption::empty(),
            seen: Mutex::default(),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl<K> KeyStore<K> {
    /// The keys as they are now. To be held for a moment only.
    pub fn key_set(&self) -> Guard<Arc<KeySet<K>>> {
        self.key_set.load()
    }

    /// Whether the folder holds what this replica could not read: other replicas may then have keys
    /// that are unknown here.
    pub fn is_behind(&self) -> bool {
        self.problem.load().is_some()
    }

    /// What is wrong with the folder.
    pub fn problem(&self) -> Option<Arc<String>> {
        self.problem.load_full()
    }

    /// How often a changed folder was taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How often a changed folder was refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl<K: Kept> KeyStore<K> {
    /// The keys of a folder, for a replica that starts. `max_age` is how long others may keep the
    /// published keys.
    ///
    /// # Errors
    ///
    /// [`KeyError`], naming the file or the folder.
    pub fn open(path: PathBuf, now: Moment, max_age: Duration) -> Result<Self, KeyError> {
        let folder = Folder::read(&path)?;
        let digest = folder.digest();
        let key_set = KeySet::found(folder.keys()?, now, max_age)
            .map_err(|reason| folder::invalid(&path, reason))?;
        Ok(Self {
            seen: Mutex::new(digest),
            folder: Some(path),
            max_age,
            ..Self::from(key_set)
        })
    }

    /// Looks at the folder again, and takes what is in it, all or nothing. Reads files. Gives the
    /// keys where they are others than before.
    pub fn reload(&self, now: Moment) -> Option<Taken> {
        let path = self.folder.as_deref()?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Folder::read(path);
        let digest = folder.as_ref().ok().and_then(Folder::digest);
        if digest.is_some() && digest == *seen {
            return None;
        }
        *seen = digest;
        let before = self.key_set.load();
        let key_set = folder.and_then(|folder| {
            KeySet::succeeding(&before, folder.keys()?, now, self.max_age)
                .map_err(|reason| folder::invalid(path, reason))
        });
        match key_set {
            Ok(key_set) => self.take(&before, key_set, now),
            Err(error) => {
                self.refuse(error.to_string());
                None
            }
        }
    }

    fn take(&self, before: &KeySet<K>, key_set: KeySet<K>, now: Moment) -> Option<Taken> {
        let held_back = key_set.held_back(now);
        let taken = Taken {
            kids: key_set.iter().map(|key| key.kid().to_owned()).collect(),
            held_back: held_back
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
        Some(taken)
    }

    fn refuse(&self, problem: String) {
        let problem = Some(Arc::new(problem));
        if self.problem.swap(problem.clone()) != problem {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn named<K: Kept>(key: &K) -> (&str, Timestamp) {
    (key.kid(), key.first_use())
}

impl<K: fmt::Debug> fmt::Debug for KeyStore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyStore")
            .field("key_set", &*self.key_set.load())
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// The keys of one purpose, in the order of their first use. Never empty.
#[derive(Debug)]
pub struct KeySet<K> {
    first: Slot<K>,
    later: Vec<Slot<K>>,
}

/// A key in its place.
#[derive(Debug)]
struct Slot<K> {
    key: K,
    /// Since when others can have seen it, as far as this replica knows.
    seen: Timestamp,
    /// From when this replica uses it.
    begins: Timestamp,
}

impl<K: Dated> KeySet<K> {
    /// Puts keys in their order, each to be used from its first use on.
    ///
    /// # Errors
    ///
    /// [`KeyError::Empty`] or [`KeyError::Duplicate`].
    pub fn new(keys: Vec<K>) -> Result<Self, KeyError> {
        let slot = |key: K| Slot {
            seen: key.first_use(),
            begins: key.first_use(),
            key,
        };
        Self::ordered(keys.into_iter().map(slot).collect())
    }

    /// The keys that a replica finds when it starts, of which others may have seen none before, or
    /// all since their first use.
    ///
    /// # Errors
    ///
    /// As [`KeySet::new`].
    pub fn found(keys: Vec<K>, now: Moment, max_age: Duration) -> Result<Self, KeyError> {
        let slot = |key: K| {
            let seen = key.first_use().min(timestamp(now));
            Slot::seen_since(seen, key, max_age)
        };
        Self::ordered(keys.into_iter().map(slot).collect())
    }

    fn ordered(mut slots: Vec<Slot<K>>) -> Result<Self, KeyError> {
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

    /// The key in use: the last whose time has come. Before the first of all has come, that one: a
    /// replica whose clock is behind must not stand without a key.
    pub fn current(&self, now: Moment) -> &K {
        &self.current_slot(now).key
    }

    fn current_slot(&self, now: Moment) -> &Slot<K> {
        self.later
            .iter()
            .rev()
            .find(|slot| has_come(slot.begins, now))
            .unwrap_or(&self.first)
    }

    fn slots(&self) -> impl Iterator<Item = &Slot<K>> {
        std::iter::once(&self.first).chain(&self.later)
    }

    /// Every key, in the order of first use.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.slots().map(|slot| &slot.key)
    }

    /// The keys not yet retired: a key is honoured for `overlap` after its successor began.
    pub fn honoured(&self, now: Moment, overlap: Duration) -> impl Iterator<Item = &K> {
        self.slots()
            .zip(self.later.iter().map(Some).chain([None]))
            .filter_map(move |(slot, successor)| {
                let retired =
                    successor.is_some_and(|next| has_come(after(next.begins, overlap), now));
                (!retired).then_some(&slot.key)
            })
    }

    /// The keys still to begin that do so later than their files say, and when. The first is used
    /// all the same, until the next one begins.
    pub fn held_back(&self, now: Moment) -> impl Iterator<Item = (&K, Timestamp)> {
        self.later
            .iter()
            .filter(move |slot| slot.begins > slot.key.first_use() && !has_come(slot.begins, now))
            .map(|slot| (&slot.key, slot.begins))
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        1 + self.later.len()
    }
}

impl<K: Kept> KeySet<K> {
    /// The keys that a running replica finds in place of its own. A new one is used once it has
    /// been published for long enough, whatever its file says; but if the key in use is gone, the
    /// next one takes its place at once, since nothing better is left.
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
                return Ok(Slot::seen_since(timestamp(now), key, max_age));
            };
            if !key.is_same(&known.key) {
                return Err(KeyError::Changed(key.kid().to_owned()));
            }
            if key.first_use() == known.key.first_use() {
                let (seen, begins) = (known.seen, known.begins);
                return Ok(Slot { key, seen, begins });
            }
            Ok(Slot::seen_since(known.seen, key, max_age))
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

impl<K: Dated> Slot<K> {
    fn seen_since(seen: Timestamp, key: K, max_age: Duration) -> Self {
        let begins = begins(seen, key.first_use(), max_age);
        Self { key, seen, begins }
    }
}

/// When a replica begins to use a key that others can have seen since `seen`: at its first use, or
/// where that leaves them no time to fetch it, a lead after they could.
pub(super) fn begins(seen: Timestamp, first_use: Timestamp, max_age: Duration) -> Timestamp {
    if after(seen, max_age) <= first_use {
        first_use
    } else {
        after(seen, lead(max_age))
    }
}

/// The sum, or the last time that there is.
pub(super) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

fn has_come(time: Timestamp, now: Moment) -> bool {
    i128::from(time.as_second()) <= i128::from(now.unix_seconds())
}

/// The whole second of a moment.
pub(super) fn timestamp(now: Moment) -> Timestamp {
    let seconds = i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}
