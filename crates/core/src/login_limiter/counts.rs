//! Counts of events by key, most of them failures, in a table of a fixed size.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::{Bound, SlowRate, nanoseconds};

/// How many events there may be, and how fast they expire. Times are in nanoseconds of the monotonic
/// clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quota {
    most: u32,
    /// The time in which one expires, or the first delay at the bound.
    each: u64,
    /// The time in which `most` expire, or the longest lifetime of a streak.
    whole: u64,
    order: Order,
}

/// In which order events expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// One after the other, whatever happens meanwhile.
    OneByOne,
    /// All at once: at a reset, or when there was none for [`Quota::lifetime`]. From the bound on, one
    /// is allowed in each [`Quota::delay`], while none is in progress.
    AllAtOnce,
}

impl Quota {
    /// How long an event has an effect at most.
    pub(super) const fn longest(&self) -> Duration {
        Duration::from_nanos(self.whole)
    }

    pub(super) fn of(bound: Bound) -> Option<Self> {
        NonZeroU32::new(bound.most).map(|most| Self::new(most, bound.window))
    }

    /// For the most events at once, which expire one after the other in this time.
    pub(super) fn new(most: NonZeroU32, window: Duration) -> Self {
        let most = most.get();
        let each = (nanoseconds(window) / u64::from(most)).max(1);
        Self {
            most,
            each,
            whole: each.saturating_mul(most.into()),
            order: Order::OneByOne,
        }
    }

    /// As many again at once.
    pub(super) const fn doubled(self) -> Self {
        Self {
            whole: self.whole.saturating_mul(2),
            ..self
        }
    }

    /// For events in a row; `None` if there is no bound.
    pub(super) fn slow(slow: SlowRate) -> Option<Self> {
        (slow.after > 0).then(|| Self {
            most: slow.after,
            each: nanoseconds(slow.interval).max(1),
            whole: nanoseconds(ROW_LIFETIME_MAX),
            order: Order::AllAtOnce,
        })
    }

    /// How long a streak of this length is kept after its last event. In proportion to the length, so that
    /// no pauses allow more than twice the bound in [`ROW_LIFETIME_MAX`].
    fn lifetime(&self, streak: u32) -> u64 {
        let each = self.whole / u64::from(self.most).saturating_mul(2).max(1);
        each.saturating_mul(streak.into()).min(self.whole)
    }

    /// The time until the next attempt after a streak of this length: it doubles with each event beyond
    /// the bound.
    fn delay(&self, streak: u32) -> u64 {
        let Some(beyond) = streak.checked_sub(self.most) else {
            return 0;
        };
        let factor = 1u64.checked_shl(beyond).unwrap_or(u64::MAX);
        let longest = nanoseconds(DELAY_MAX).max(self.each);
        self.each.saturating_mul(factor).min(longest)
    }
}

/// The longest delay between two attempts at the slow rate, unless the first one is longer. With the
/// defaults, a hundred failures in a row take a week. NIST SP 800-63B-4 section 3.2.2 allows as many.
const DELAY_MAX: Duration = Duration::from_secs(4 * 3600);

/// How long a streak is kept at most.
const ROW_LIFETIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How an attempt is counted when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settlement {
    Count,
    Release,
    /// It does not count, and ends the streak of those that did. Only streaks are reset.
    Reset,
}

/// The count of one key. Most keys have none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    /// When the last event expires.
    expires_at: u64,
    /// Attempts in progress.
    pending: u32,
    /// The number of events in a row, with [`Order::AllAtOnce`].
    streak: u32,
}

impl Count {
    /// Whether another attempt may begin: the bound must hold even if all attempts in progress count.
    /// Otherwise the time until one may.
    pub(super) fn room(self, quota: Quota, now: u64) -> Result<(), u64> {
        match quota.order {
            Order::OneByOne => self.room_beside_others(quota, now),
            Order::AllAtOnce => self.room_in_a_row(quota, now),
        }
    }

    fn room_in_a_row(self, quota: Quota, now: u64) -> Result<(), u64> {
        let streak = self.streak(now);
        if streak.saturating_add(self.pending) < quota.most {
            return Ok(());
        }
        let opens_at = self.opens_at(quota);
        if streak >= quota.most && now < opens_at {
            return Err(opens_at - now);
        }
        // Attempts in progress end soon.
        if self.pending == 0 { Ok(()) } else { Err(1) }
    }

    fn streak(self, now: u64) -> u32 {
        if self.expires_at > now {
            self.streak
        } else {
            0
        }
    }

    /// When the streak allows the next attempt.
    fn opens_at(self, quota: Quota) -> u64 {
        let last = self.expires_at.saturating_sub(quota.lifetime(self.streak));
        last.saturating_add(quota.delay(self.streak))
    }

    fn room_beside_others(self, quota: Quota, now: u64) -> Result<(), u64> {
        let failures = self.expires_at.saturating_sub(now);
        let pending = u64::from(self.pending).saturating_mul(quota.each);
        let with_another = failures.saturating_add(quota.each);
        if with_another.saturating_add(pending) <= quota.whole {
            return Ok(());
        }
        // Attempts in progress end soon.
        Err(with_another.saturating_sub(quota.whole).max(1))
    }

    /// Counts one. Returns the change of a streak.
    pub(super) fn count(&mut self, quota: Quota, at: u64) -> StreakChange {
        match quota.order {
            Order::OneByOne => {
                self.expires_at = self.expires_at.max(at).saturating_add(quota.each);
                StreakChange::Unchanged
            }
            Order::AllAtOnce => {
                let streak = self.streak(at);
                // From the bound on each takes its delay, also those that several replicas allowed at
                // the same time.
                let from = if streak == 0 {
                    at
                } else {
                    at.max(self.opens_at(quota))
                };
                self.streak = streak.saturating_add(1);
                self.expires_at = from.saturating_add(quota.lifetime(self.streak));
                if self.streak == quota.most {
                    StreakChange::ReachedBound
                } else {
                    StreakChange::Unchanged
                }
            }
        }
    }

    const fn clear(&mut self) -> StreakChange {
        let streak = if self.streak > 0 {
            StreakChange::Ended
        } else {
            StreakChange::Unchanged
        };
        self.expires_at = 0;
        self.streak = 0;
        streak
    }

    const fn has_expired(self, now: u64) -> bool {
        self.pending == 0 && self.expires_at <= now
    }
}

/// What happened to a streak of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreakChange {
    Unchanged,
    ReachedBound,
    Ended,
}

/// So many that logins on different threads seldom use the same one.
const SHARDS: usize = 64;

/// Half of what a map of 8192 slots holds, which is seven eighths of them. Removed entries leave
/// tombstones that use up the map. It is cleaned in place only if at most half of it is in use;
/// otherwise it doubles. All shards together hold 229,376 keys in 12.5 MiB, 25 bytes for each slot.
const CAPACITY: usize = 7 * 512;

/// The shortest time between two removals of expired counts from a full shard: a flood must not
/// search it at every attempt.
const SWEEP_PAUSE: u64 = 1_000_000_000;

#[derive(Debug, Default)]
struct Shard {
    counts: HashMap<u64, Count>,
    sweep_at: u64,
}

impl Shard {
    /// The count of a key, which is new if there was none; `None` if there is no room for it.
    fn count(&mut self, key: u64, now: u64) -> Option<&mut Count> {
        if self.counts.len() >= CAPACITY && !self.counts.contains_key(&key) {
            if now >= self.sweep_at {
                self.counts.retain(|_, count| !count.has_expired(now));
                self.sweep_at = now.saturating_add(SWEEP_PAUSE);
            }
            if self.counts.len() >= CAPACITY {
                return None;
            }
        }
        Some(self.counts.entry(key).or_default())
    }
}

/// Counts of events by key. A key with events is never evicted for another one. If the table is full,
/// a new key is not counted, and only the limit of the replica applies to it.
#[derive(Debug)]
pub(super) struct Counts(Box<[Mutex<Shard>]>);

impl Default for Counts {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Counts {
    /// Whether an attempt could begin.
    pub(super) fn room(&self, key: u64, quota: Quota, now: u64) -> Result<(), u64> {
        let Some(shard) = self.shard(key) else {
            return Ok(());
        };
        let count = shard.counts.get(&key).copied().unwrap_or_default();
        count.room(quota, now)
    }

    /// Begins an attempt. Returns whether it must be settled: it is not counted if the table is full.
    pub(super) fn take(&self, key: u64, quota: Quota, now: u64) -> Result<bool, u64> {
        let taken = self.with(key, now, |count| {
            // A new count has room.
            count.room(quota, now)?;
            count.pending += 1;
            Ok(())
        });
        taken.transpose().map(|taken| taken.is_some())
    }

    /// Counts an event of another replica. Returns whether there was room in the table.
    pub(super) fn add(&self, key: u64, quota: Quota, at: u64, now: u64) -> bool {
        // It has expired, however many there were before it.
        at.saturating_add(quota.whole) <= now
            // It stays also if it has expired, because later events may follow and lengthen the streak.
            || self.with(key, now, |count| count.count(quota, at)).is_some()
    }

    /// Changes a count, which is new if there was none; `None` if there is no room for it.
    fn with<T>(&self, key: u64, now: u64, change: impl FnOnce(&mut Count) -> T) -> Option<T> {
        self.shard(key)?.count(key, now).map(change)
    }

    /// Ends a tracked attempt. Returns the change of a streak.
    pub(super) fn settle(
        &self,
        key: u64,
        quota: Quota,
        now: u64,
        settlement: Settlement,
    ) -> StreakChange {
        self.change(key, now, |count| {
            count.pending = count.pending.saturating_sub(1);
            match settlement {
                Settlement::Count => count.count(quota, now),
                Settlement::Reset => count.clear(),
                Settlement::Release => StreakChange::Unchanged,
            }
        })
    }

    /// Removes the counted events. Attempts in progress stay.
    pub(super) fn clear(&self, key: u64, now: u64) {
        self.change(key, now, Count::clear);
    }

    fn change(
        &self,
        key: u64,
        now: u64,
        change: impl FnOnce(&mut Count) -> StreakChange,
    ) -> StreakChange {
        let Some(mut shard) = self.shard(key) else {
            return StreakChange::Unchanged;
        };
        let Entry::Occupied(mut entry) = shard.counts.entry(key) else {
            return StreakChange::Unchanged;
        };
        let changed = change(entry.get_mut());
        if entry.get().has_expired(now) {
            entry.remove();
        }
        changed
    }

    fn shard(&self, key: u64) -> Option<MutexGuard<'_, Shard>> {
        let index = usize::try_from(key % SHARDS as u64).unwrap_or_default();
        self.0.get(index).map(Mutex::lock)
    }
}

#[cfg(test)]
mod tests;
