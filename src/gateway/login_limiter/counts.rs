//! Events by key, most of them failures, in a table that never grows beyond its size.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Bound, SlowPace, nanoseconds};

/// How many events there may be, and how fast they are forgotten. Times are in nanoseconds of the
/// monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// The most.
    most: u32,
    /// The time in which one is forgotten.
    each: u64,
    /// The time in which as many are forgotten as there may be.
    whole: u64,
    order: Order,
}

/// In which order events are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// One after the other, whatever happens meanwhile.
    OneByOne,
    /// All at once: at a reset, or when there was none for `each` times their number. Where there
    /// are as many as there may be, one is allowed each `each`, as long as none is under way.
    AllAtOnce,
}

impl Pace {
    /// None where there is no bound.
    pub(super) fn of(bound: Bound) -> Option<Self> {
        let each = nanoseconds(bound.window).checked_div(bound.most.into())?;
        Some(Self::new(bound.most, each, Order::OneByOne))
    }

    /// For events in a row; none where there is no bound.
    pub(super) fn slow(slow: SlowPace) -> Option<Self> {
        let each = nanoseconds(slow.interval);
        (slow.after > 0).then(|| Self::new(slow.after, each, Order::AllAtOnce))
    }

    fn new(most: u32, each: u64, order: Order) -> Self {
        let each = each.max(1);
        Self {
            most,
            each,
            whole: each.saturating_mul(most.into()),
            order,
        }
    }
}

/// What becomes of an attempt's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settlement {
    /// It counts.
    Count,
    /// It does not count.
    Release,
    /// It does not count, and ends a row of those that did.
    Reset,
}

/// What is known of one key. Nothing is known of most.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// When the last of them will be forgotten.
    forgotten_at: u64,
    /// Attempts of which nobody knows yet what comes of them.
    pending: u32,
    /// How many there were in a row, where they are forgotten all at once.
    row: u32,
}

impl Count {
    /// Whether another attempt may begin: if all that are under way count, the bound still holds.
    /// Otherwise the time until one may.
    fn room(self, pace: Pace, now: u64) -> Result<(), u64> {
        match pace.order {
            Order::OneByOne => self.room_beside_others(pace, now),
            Order::AllAtOnce => self.room_in_a_row(pace, now),
        }
    }

    fn room_in_a_row(self, pace: Pace, now: u64) -> Result<(), u64> {
        let row = self.row(now);
        if row.saturating_add(self.pending) < pace.most {
            return Ok(());
        }
        // Since the last one.
        let passed = pace
            .whole
            .saturating_sub(self.forgotten_at.saturating_sub(now));
        if row >= pace.most && passed < pace.each {
            return Err(pace.each - passed);
        }
        // What is under way is decided soon, one way or the other.
        if self.pending == 0 { Ok(()) } else { Err(1) }
    }

    fn row(self, now: u64) -> u32 {
        if self.forgotten_at > now { self.row } else { 0 }
    }

    fn room_beside_others(self, pace: Pace, now: u64) -> Result<(), u64> {
        let failures = self.forgotten_at.saturating_sub(now);
        let pending = u64::from(self.pending).saturating_mul(pace.each);
        let with_another = failures.saturating_add(pace.each);
        if with_another.saturating_add(pending) <= pace.whole {
            return Ok(());
        }
        // What is under way is decided soon, one way or the other.
        Err(with_another.saturating_sub(pace.whole).max(1))
    }

    /// Counts one; whether there are only now as many in a row as there may be.
    fn count(&mut self, pace: Pace, now: u64) -> bool {
        match pace.order {
            Order::OneByOne => {
                self.forgotten_at = self.forgotten_at.max(now).saturating_add(pace.each);
                false
            }
            Order::AllAtOnce => {
                let row = self.row(now);
                self.row = row.saturating_add(1).min(pace.most);
                let kept = pace.each.saturating_mul(self.row.into());
                self.forgotten_at = now.saturating_add(kept);
                row < pace.most && self.row == pace.most
            }
        }
    }

    const fn forget(&mut self) {
        self.forgotten_at = 0;
        self.row = 0;
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

/// Half of what a map of 8192 places holds, which is seven eighths of them. What is removed from a
/// map leaves marks that use it up, and only where no more than half of it is in use is it then
/// cleaned in place; otherwise it doubles. All shards together hold 229,376 keys in 12.5 MiB, 25
/// bytes for each place.
const ROOM: usize = 7 * 512;

/// A full shard is searched for what is over, but not by every attempt of a flood.
const SWEEP_PAUSE: u64 = 1_000_000_000;

#[derive(Debug, Default)]
struct Shard {
    counts: HashMap<u64, Count>,
    sweep_at: u64,
}

/// Events by key. A key that has some is never pushed out by others: where there is no room, the
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
            pending: 1,
            ..Count::default()
        };
        shard.counts.insert(key, begun);
        Ok(Taken::Tracked)
    }

    /// Ends an attempt that was tracked; whether there are only now as many in a row as there may
    /// be.
    pub(super) fn settle(&self, key: u64, pace: Pace, now: u64, settlement: Settlement) -> bool {
        self.change(key, now, |count| {
            count.pending = count.pending.saturating_sub(1);
            match settlement {
                Settlement::Count => return count.count(pace, now),
                Settlement::Reset if pace.order == Order::AllAtOnce => count.forget(),
                Settlement::Reset | Settlement::Release => {}
            }
            false
        })
    }

    /// Forgets what was counted. What is under way stays so.
    pub(super) fn forget(&self, key: u64, now: u64) {
        self.change(key, now, |count| {
            count.forget();
            false
        });
    }

    fn change(&self, key: u64, now: u64, change: impl FnOnce(&mut Count) -> bool) -> bool {
        let Some(mut shard) = self.shard(key) else {
            return false;
        };
        let Entry::Occupied(mut entry) = shard.counts.entry(key) else {
            return false;
        };
        let changed = change(entry.get_mut());
        if entry.get().is_over(now) {
            entry.remove();
        }
        changed
    }

    fn shard(&self, key: u64) -> Option<MutexGuard<'_, Shard>> {
        let index = usize::try_from(key % SHARDS as u64).unwrap_or_default();
        let shard = self.0.get(index)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
