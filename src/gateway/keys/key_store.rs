//! The keys of one purpose while they are used: a set that is replaced as a whole when its folder
//! changes, and kept when the folder is invalid.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use iam_adapters::Moment;
use jiff::Timestamp;

use super::folder::{self, Folder};
use super::{Kept, KeyError, KeySet};

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
