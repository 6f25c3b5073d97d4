//! What ended before its time, as far as this replica knows: sessions of ours, sessions of the
//! IAM's, and all that a subject had until some moment.
//!
//! An entry stays until every session that it ends would have expired anyway, by a clock that may
//! be set back a little; nothing else removes it, least of all a full cache. There is one entry
//! for each end, and nothing for the sessions that live.

mod name;
mod revocation;

use iam_adapters::Moment;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

pub use name::{Name, RevocationKey, SessionNames};
pub use revocation::{End, Kind, Revocation};

#[derive(Debug, Clone, Copy)]
struct Entry {
    end: End,
    begun_until: u64,
    forget_at: u64,
    origin: Origin,
}

/// Who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This replica.
    Here,
    /// Another one.
    Elsewhere,
}

impl Entry {
    fn new(revocation: &Revocation, origin: Origin) -> Self {
        Self {
            end: revocation.end,
            begun_until: revocation.begun_until,
            forget_at: revocation.forget_at,
            origin,
        }
    }

    /// Makes it no less than the new one; tells whether that changed anything.
    fn strengthen(&mut self, new: &Self) -> bool {
        let before = (self.end, self.begun_until, self.forget_at);
        self.end = self.end.max(new.end);
        self.begun_until = self.begun_until.max(new.begun_until);
        self.forget_at = self.forget_at.max(new.forget_at);
        before != (self.end, self.begun_until, self.forget_at)
    }
}

/// What became of an end that another replica told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// It is recorded.
    New,
    /// Nothing new in it.
    Known,
    /// All that it ends has expired.
    Past,
    /// No replica says such a thing: it reaches too far into the future.
    Implausible,
    /// There is no room for more.
    Full,
}

#[derive(Debug, Default)]
struct Entries {
    by_name: HashMap<(Kind, Name), Entry>,
    /// How many of them other replicas told.
    learned: usize,
    /// The number of entries at which the expired ones are next looked for.
    sweep_at: usize,
    /// When they were last looked for, in seconds since 1970.
    swept_at: u64,
}

/// What ended early.
#[derive(Debug)]
pub struct Revocations {
    entries: RwLock<Entries>,
    /// The most ends that are learned from other replicas.
    room: usize,
    // How many entries there are of each kind: no name is made for a kind that has none.
    sessions: AtomicUsize,
    upstream_sessions: AtomicUsize,
    subjects: AtomicUsize,
    /// How often an end was recorded. Who saw all of them need not look again.
    recorded: AtomicU64,
}

impl Default for Revocations {
    fn default() -> Self {
        Self::with_room(LEARNED_MAX)
    }
}

impl Revocations {
    fn with_room(room: usize) -> Self {
        Self {
            entries: RwLock::default(),
            room,
            sessions: AtomicUsize::default(),
            upstream_sessions: AtomicUsize::default(),
            subjects: AtomicUsize::default(),
            recorded: AtomicU64::default(),
        }
    }

    /// How the session ended; none where it did not, as far as is known here. A second look
    /// through the same names costs nothing while nothing was recorded in between.
    #[must_use]
    pub fn end_of(&self, names: &mut SessionNames<'_>) -> Option<End> {
        let recorded = self.recorded.load(Ordering::Acquire);
        if recorded == names.none_of {
            return None;
        }
        // The names are made before the lock is taken.
        let sought = Kind::ALL.map(|kind| {
            let any = self.of(kind).load(Ordering::Relaxed) > 0;
            any.then(|| (kind, names.of(kind)))
        });
        let entries = self.read();
        let end = sought
            .iter()
            .flatten()
            .filter_map(|key| entries.by_name.get(key))
            .filter(|entry| names.begun_at() <= entry.begun_until)
            .map(|entry| entry.end)
            .max();
        if end.is_none() {
            names.none_of = recorded;
        }
        end
    }

    /// Records an end. Nothing takes one back or makes it less.
    pub fn record(&self, revocation: &Revocation, now: Moment) {
        self.note(revocation, Origin::Here, now);
    }

    /// Records an end that another replica told. Of those there is a bound, since whoever can speak
    /// in that replica's place could tell without end.
    pub fn learn(&self, revocation: &Revocation, now: Moment) -> Learned {
        let seconds = now.unix_seconds();
        if revocation.forget_at <= seconds {
            return Learned::Past;
        }
        if !revocation.is_plausible(now) {
            return Learned::Implausible;
        }
        self.note(revocation, Origin::Elsewhere, now)
    }

    fn note(&self, revocation: &Revocation, origin: Origin, now: Moment) -> Learned {
        let new = Entry::new(revocation, origin);
        let key = (revocation.kind, revocation.name);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = entries.by_name.get_mut(&key) {
            if !known.strengthen(&new) {
                return Learned::Known;
            }
        } else {
            if origin == Origin::Elsewhere && !self.has_room(&mut entries, now) {
                return Learned::Full;
            }
            entries.by_name.insert(key, new);
            entries.learned += usize::from(origin == Origin::Elsewhere);
            self.of(revocation.kind).fetch_add(1, Ordering::Relaxed);
        }
        if entries.by_name.len() >= entries.sweep_at.max(SWEEP_MIN) {
            self.sweep(&mut entries, now);
        }
        // Last, so that whoever sees it sees all the rest.
        self.recorded.fetch_add(1, Ordering::Release);
        Learned::New
    }

    fn has_room(&self, entries: &mut Entries, now: Moment) -> bool {
        if entries.learned >= self.room
            && now.unix_seconds() >= entries.swept_at.saturating_add(SWEEP_PAUSE)
        {
            self.sweep(entries, now);
        }
        entries.learned < self.room
    }

    fn sweep(&self, entries: &mut Entries, now: Moment) {
        let seconds = now.unix_seconds();
        let learned = &mut entries.learned;
        entries.by_name.retain(|(kind, _), entry| {
            let keep = entry.forget_at > seconds;
            if !keep {
                self.of(*kind).fetch_sub(1, Ordering::Relaxed);
                *learned -= usize::from(entry.origin == Origin::Elsewhere);
            }
            keep
        });
        // Doubling makes the sweeps cost a constant for each entry made.
        entries.sweep_at = entries.by_name.len() * 2;
        entries.swept_at = seconds;
    }

    /// How many ends are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.read().by_name.len()
    }

    fn of(&self, kind: Kind) -> &AtomicUsize {
        match kind {
            Kind::Session => &self.sessions,
            Kind::UpstreamSession => &self.upstream_sessions,
            Kind::Subject => &self.subjects,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fewer entries than this are not worth a sweep.
const SWEEP_MIN: usize = 1024;

/// The most ends that are learned from other replicas: more logouts than a day has for most, in
/// some 100 MB where all that room is taken.
const LEARNED_MAX: usize = 1_000_000;

/// How often, in seconds, room is looked for where there is none.
const SWEEP_PAUSE: u64 = 60;

#[cfg(test)]
mod tests;
