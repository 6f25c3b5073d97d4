//! Which sessions ended before their time, as far as this replica knows.
//!
//! An entry stays until its session would have expired anyway, by a clock that may be set back a
//! little; nothing else removes it, least of all a full cache. There is one entry for each session that ended early, and nothing for the
//! others.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use iam_adapters::Moment;

use super::error::InvalidSession;
use super::keys::CLOCK_SKEW;
use super::session::SessionId;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

#[derive(Debug, Clone, Copy)]
struct Entry {
    end: End,
    /// In seconds since 1970.
    forget_at: u64,
}

#[derive(Debug, Default)]
struct Entries {
    by_session: HashMap<SessionId, Entry>,
    /// The number of entries at which the expired ones are next looked for.
    sweep_at: usize,
}

/// The sessions that ended early.
#[derive(Debug, Default)]
pub struct Revocations(RwLock<Entries>);

impl Revocations {
    /// How the session ended; none where it did not, as far as is known here.
    #[must_use]
    pub fn end_of(&self, session: SessionId) -> Option<End> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        entries.by_session.get(&session).map(|entry| entry.end)
    }

    /// Records an end. [`End::Upstream`] is the last word; a later logout does not take it back.
    pub fn record(&self, session: SessionId, end: End, expires_at: u64, now: Moment) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry {
            end,
            forget_at: expires_at.saturating_add(CLOCK_SKEW.as_secs()),
        };
        entries
            .by_session
            .entry(session)
            .and_modify(|known| {
                if end == End::Upstream {
                    known.end = end;
                }
            })
            .or_insert(entry);
        if entries.by_session.len() >= entries.sweep_at.max(SWEEP_MIN) {
            let now = now.unix_seconds();
            entries.by_session.retain(|_, entry| entry.forget_at > now);
            // Doubling makes the sweeps cost a constant for each entry made.
            entries.sweep_at = entries.by_session.len() * 2;
        }
    }

    /// How many ends are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        entries.by_session.len()
    }
}

/// Fewer entries than this are not worth a sweep.
const SWEEP_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_lc_rs::rand::SystemRandom;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment {
            unix: Duration::from_secs(seconds),
            monotonic: Duration::from_secs(seconds),
        }
    }

    fn session() -> SessionId {
        SessionId::generate(&SystemRandom::new()).unwrap()
    }

    #[test]
    fn an_end_is_remembered_and_the_word_of_the_iam_is_the_last() {
        let (revocations, id) = (Revocations::default(), session());
        assert_eq!(revocations.end_of(id), None);
        revocations.record(id, End::LoggedOut, 100, at(0));
        assert_eq!(revocations.end_of(id), Some(End::LoggedOut));
        revocations.record(id, End::Upstream, 100, at(0));
        revocations.record(id, End::LoggedOut, 100, at(0));
        assert_eq!(revocations.end_of(id), Some(End::Upstream));
        assert_eq!(revocations.end_of(session()), None);
    }

    #[test]
    fn a_clock_set_back_by_a_minute_finds_every_end_of_a_living_session() {
        let revocations = Revocations::default();
        let ended = session();
        revocations.record(ended, End::LoggedOut, 1_000, at(900));
        for _ in 0..2 * SWEEP_MIN {
            revocations.record(session(), End::LoggedOut, 2_000, at(1_059));
        }
        assert_eq!(revocations.end_of(ended), Some(End::LoggedOut));
    }

    #[test]
    fn only_sessions_that_would_have_expired_are_forgotten() {
        let revocations = Revocations::default();
        let living = session();
        revocations.record(living, End::LoggedOut, 1_000, at(0));
        for _ in 0..10 * SWEEP_MIN {
            revocations.record(session(), End::LoggedOut, 10, at(70));
        }
        assert_eq!(revocations.end_of(living), Some(End::LoggedOut));
        assert!(
            revocations.count() < 2 * SWEEP_MIN,
            "{}",
            revocations.count()
        );
    }
}
