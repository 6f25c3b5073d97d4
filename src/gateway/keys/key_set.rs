//! The keys of one purpose in their order: which is used now, and which are still honoured.

use std::time::Duration;

use iam_adapters::Moment;
use jiff::{SignedDuration, Timestamp};

use super::{Dated, Kept, KeyError, lead};

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
