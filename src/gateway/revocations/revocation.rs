//! What is recorded of an end.

use std::time::Duration;

use iam_adapters::Moment;

use super::super::error::InvalidSession;
use super::super::keys::CLOCK_SKEW;
use super::Name;

/// How a session ended. The later is the stronger word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Logged out here; the IAM has not confirmed it yet.
    LoggedOut,
    /// By a word of the IAM that need not be its last: what it calls inactive may be alive again
    /// once its user is let in again, and which sessions began before a moment is told by clocks
    /// that disagree. No reason not to tell the IAM of a logout.
    Inactive,
    /// Over at the IAM too, for good.
    Upstream,
}

impl From<End> for InvalidSession {
    fn from(end: End) -> Self {
        match end {
            End::LoggedOut => Self::Revoked,
            End::Inactive | End::Upstream => Self::Ended,
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

    /// How an end of this kind is told to other replicas. Whether the IAM knows of a logout, each
    /// finds out by itself when it has to tell the IAM.
    #[must_use]
    pub const fn told_as(self) -> End {
        match self {
            Self::Session => End::LoggedOut,
            Self::UpstreamSession => End::Upstream,
            Self::Subject => End::Inactive,
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
    /// Only sessions whose login began then or before are over, in seconds since 1970.
    pub begun_until: u64,
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
            begun_until: u64::MAX,
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
            begun_until: u64::MAX,
            forget_at: last_expiry(now, max_lifetime),
        }
    }

    /// Of all sessions of a subject whose login began at `begun_until` or before, in seconds since
    /// 1970, by the IAM's word.
    #[must_use]
    pub fn of_subject(name: Name, begun_until: u64, now: Moment, max_lifetime: Duration) -> Self {
        Self {
            kind: Kind::Subject,
            name,
            end: End::Inactive,
            begun_until,
            forget_at: last_expiry(now, max_lifetime),
        }
    }

    /// Whether some replica can have said so: no session lives for ever, and no login has begun
    /// that is still to come.
    pub(super) fn is_plausible(&self, now: Moment) -> bool {
        let soon = now.unix_seconds().saturating_add(CLOCK_SKEW.as_secs());
        let told_of_moment = match self.kind {
            Kind::Session | Kind::UpstreamSession => true,
            Kind::Subject => self.begun_until <= soon,
        };
        told_of_moment && self.forget_at <= last_expiry(now, LIFETIME_MAX)
    }
}

/// No session lives longer, whatever the settings of the replica that made it: a year and a day.
const LIFETIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// When the last session that exists now has expired by every clock: the one that made it may be
/// ahead, and the one that forgets may be set back.
fn last_expiry(now: Moment, max_lifetime: Duration) -> u64 {
    let longest = max_lifetime.saturating_add(CLOCK_SKEW * 2).as_secs();
    now.unix_seconds().saturating_add(longest)
}
