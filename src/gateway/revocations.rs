//! What ended before its time, as far as this replica knows: sessions of ours, sessions of the
//! IAM's, and all that a subject had until some moment.
//!
//! An entry stays until every session that it ends would have expired anyway, by a clock that may
//! be set back a little; nothing else removes it, least of all a full cache. There is one entry
//! for each end, and nothing for the sessions that live.

mod name;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use iam_adapters::Moment;

pub use name::{Name, RevocationKey, SessionNames};

use super::error::InvalidSession;
use super::keys::CLOCK_SKEW;

/// How a session ended. The later is the stronger word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Logged out here; the IAM has not confirmed it yet.
    LoggedOut,
    /// Over at the IAM too.
    Upstream,
}

impl From<End> for InvalidSession {
    fn from(end: End) -> Self {
        match end {
            End::LoggedOut => Self::Revoked,
            End::Upstream => Self::Ended,
        }
    }
}

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One session of ours.
    Session,
    /// One session of the IAM's, and with it every session of ours that rests on it.
    UpstreamSession,
    /// A subject: all of its sessions up to a moment.
    Subject,
}

impl Kind {
    /// Every kind there is.
    pub const ALL: [Self; 3] = [Self::Session, Self::UpstreamSession, Self::Subject];

    /// The kind's number in what replicas agree on; it is never given to another.
    #[must_use]
    pub const fn tag(self) -> u8 {
        match self {
            Self::Session => 1,
            Self::UpstreamSession => 2,
            Self::Subject => 3,
        }
    }
}

/// That something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revocation {
    /// What.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// How.
    pub end: End,
    /// Only sessions verified then or before are over, in seconds since 1970.
    pub verified_until: u64,
    /// When all of them would have expired anyway, in seconds since 1970.
    pub forget_at: u64,
}

impl Revocation {
    /// Of one session, which would have expired at `expires_at`.
    #[must_use]
    pub fn of_session(name: Name, end: End, expires_at: u64) -> Self {
        Self {
            kind: Kind::Session,
            name,
            end,
            verified_until: u64::MAX,
            forget_at: expires_at.saturating_add(CLOCK_SKEW.as_secs()),
        }
    }

    /// Of a session at the IAM, by the IAM's word; no session of ours lives longer than
    /// `max_lifetime`.
    #[must_use]
    pub fn of_upstream_session(name: Name, now: Moment, max_lifetime: Duration) -> Self {
        Self {
            kind: Kind::UpstreamSession,
            name,
            end: End::Upstream,
            verified_until: u64::MAX,
            forget_at: last_expiry(now, max_lifetime),
        }
    }

    /// Of all sessions of a subject that were verified at `verified_until` or before, in seconds
    /// since 1970, by the IAM's word.
    #[must_use]
    pub fn of_subject(
        name: Name,
        verified_until: u64,
        now: Moment,
        max_lifetime: Duration,
    ) -> Self {
        Self {
            kind: Kind::Subject,
            name,
            end: End::Upstream,
            verified_until,
            forget_at: last_expiry(now, max_lifetime),
        }
    }
}

/// When the last session that exists now has expired by every clock: the one that made it may be
/// ahead, and the one that forgets may be set back.
fn last_expiry(now: Moment, max_lifetime: Duration) -> u64 {
    let longest = max_lifetime.saturating_add(CLOCK_SKEW * 2).as_secs();
    now.unix_seconds().saturating_add(longest)
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    end: End,
    verified_until: u64,
    forget_at: u64,
}

impl Entry {
    fn strengthen(&mut self, new: Self) {
        self.end = self.end.max(new.end);
        self.verified_until = self.verified_until.max(new.verified_until);
        self.forget_at = self.forget_at.max(new.forget_at);
    }
}

#[derive(Debug, Default)]
struct Entries {
    by_name: HashMap<(Kind, Name), Entry>,
    /// The number of entries at which the expired ones are next looked for.
    sweep_at: usize,
}

/// What ended early.
#[derive(Debug, Default)]
pub struct Revocations {
    entries: RwLock<Entries>,
    // How many entries there are of each kind: no name is made for a kind that has none.
    sessions: AtomicUsize,
    upstream_sessions: AtomicUsize,
    subjects: AtomicUsize,
    /// How often an end was recorded. Who saw all of them need not look again.
    recorded: AtomicU64,
}

impl Revocations {
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
            .filter(|entry| names.verified_at() <= entry.verified_until)
            .map(|entry| entry.end)
            .max();
        if end.is_none() {
            names.none_of = recorded;
        }
        end
    }

    /// Records an end. Nothing takes one back or makes it less.
    pub fn record(&self, revocation: &Revocation, now: Moment) {
        let new = Entry {
            end: revocation.end,
            verified_until: revocation.verified_until,
            forget_at: revocation.forget_at,
        };
        let key = (revocation.kind, revocation.name);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        match entries.by_name.entry(key) {
            Slot::Occupied(mut known) => known.get_mut().strengthen(new),
            Slot::Vacant(slot) => {
                slot.insert(new);
                self.of(revocation.kind).fetch_add(1, Ordering::Relaxed);
            }
        }
        if entries.by_name.len() >= entries.sweep_at.max(SWEEP_MIN) {
            let now = now.unix_seconds();
            entries.by_name.retain(|(kind, _), entry| {
                let keep = entry.forget_at > now;
                if !keep {
                    self.of(*kind).fetch_sub(1, Ordering::Relaxed);
                }
                keep
            });
            // Doubling makes the sweeps cost a constant for each entry made.
            entries.sweep_at = entries.by_name.len() * 2;
        }
        // Last, so that whoever sees it sees all the rest.
        self.recorded.fetch_add(1, Ordering::Release);
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

#[cfg(test)]
mod tests;
