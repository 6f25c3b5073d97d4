//! Failures by key, in a table that never grows beyond its size.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Bound, nanoseconds};

/// How fast failures are forgotten. Times are in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// The time in which one is forgotten.
    each: u64,
    /// The time in which as many are forgotten as there may be.
    whole: u64,
}

impl Pace {
    /// None where there is no bound.
    pub(super) fn of(bound: Bound) -> Option<Self> {
        let most = u64::from(bound.failures);
        let each = nanoseconds(bound.window).checked_div(most)?.max(1);
        Some(Self {
            each,
            whole: each.saturating_mul(most),
        })
    }
}

/// What is known of one key. Nothing is known of most.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// When the last of the failures will be forgotten, the one after the other.
    forgotten_at: u64,
    /// Attempts of which nobody knows yet what comes of them.
    pending: u32,
}

impl Count {
    /// Whether another attempt may begin: if all that are under way fail, the bound still holds.
    /// Otherwise the time until one may.
    fn room(self, pace: Pace, now: u64) -> Result<(), u64> {
        let failures = self.forgotten_at.saturating_sub(now);
        let pending = u64::from(self.pending).saturating_mul(pace.each);
        let with_another = failures.saturating_add(pace.each);
        if with_another.saturating_add(pending) <= pace.whole {
            return Ok(());
        }
        // What is under way is decided soon, one way or the other.
        Err(with_another.saturating_sub(pace.whole).max(1))
    }

    const fn is_over(self, now: u64) -> bool {
        self.pending == 0 && self.forgotten_at <= now
    }
}

/// Whether there was room in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Then the attempt has to be settled.
    Tracked,
    /// The table is full of others.
    Untracked,
}

impl Taken {
    pub(super) const fn is_tracked(self) -> bool {
        matches!(self, Self::Tracked)
    }
}

/// Logins on different threads seldom meet in one of so many.
const SHARDS: usize = 64;

/// Seven eighths of a power of two is what a map holds before it grows: 8192 places of 25 bytes
/// each. All shards together hold 458,752 keys in 12.5 MiB, once they are full.
const ROOM: usize = 7 * 1024;

/// A full shard is searched for what is over, but not by every attempt of a flood.
const SWEEP_PAUSE: u64 = 1_000_000_000;

#[derive(Debug, Default)]
struct Shard {
    counts: HashMap<u64, Count>,
    sweep_at: u64,
}

/// Failures by key. A key that failed is never pushed out by others: where there is no room, the
/// newcomer goes uncounted, and only the bounds that count everybody hold for it.
#[derive(Debug)]
pub(super) struct Counts(Box<[Mutex<Shard>]>);

impl Default for Counts {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Counts {
    /// Whether an attempt could begin.
    pub(super) fn room(&self, key: u64, pace: Pace, now: u64) -> Result<(), u64> {
        let Some(shard) = self.shard(key) else {
            return Ok(());
        };
        let count = shard.counts.get(&key).copied().unwrap_or_default();
        count.room(pace, now)
    }

    /// Begins an attempt, which shall be settled where it is tracked.
    pub(super) fn take(&self, key: u64, pace: Pace, now: u64) -> Result<Taken, u64> {
        let Some(mut shard) = self.shard(key) else {
            return Ok(Taken::Untracked);
        };
        if let Some(count) = shard.counts.get_mut(&key) {
            count.room(pace, now)?;
            count.pending += 1;
            return Ok(Taken::Tracked);
        }
        if shard.counts.len() >= ROOM && now >= shard.sweep_at {
            shard.counts.retain(|_, count| !count.is_over(now));
            shard.sweep_at = now.saturating_add(SWEEP_PAUSE);
        }
        if shard.counts.len() >= ROOM {
            return Ok(Taken::Untracked);
        }
        let begun = Count {
            forgotten_at: 0,
            pending: 1,
        };
        shard.counts.insert(key, begun);
        Ok(Taken::Tracked)
    }

    /// Ends an attempt that was tracked.
    pub(super) fn settle(&self, key: u64, pace: Pace, now: u64, failed: bool) {
        let Some(mut shard) = self.shard(key) else {
            return;
        };
        let Entry::Occupied(mut entry) = shard.counts.entry(key) else {
            return;
        };
        let count = entry.get_mut();
        count.pending = count.pending.saturating_sub(1);
        if failed {
            count.forgotten_at = count.forgotten_at.max(now).saturating_add(pace.each);
        }
        if count.is_over(now) {
            entry.remove();
        }
    }

    /// How many keys are counted.
    #[cfg(test)]
    pub(super) fn tracked(&self) -> usize {
        let shards = self.0.iter();
        shards.map(|shard| shard.lock().unwrap().counts.len()).sum()
    }

    fn shard(&self, key: u64) -> Option<MutexGuard<'_, Shard>> {
        let index = usize::try_from(key % SHARDS as u64).unwrap_or_default();
        let shard = self.0.get(index)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
