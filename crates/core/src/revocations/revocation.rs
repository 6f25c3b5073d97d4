//! The data of a revocation.

use std::time::Duration;

use iam_adapters::Moment;
use strum::FromRepr;

use super::super::error::InvalidSession;
use super::super::timeline::DIFFERENCE_MAX;
use super::{RevocationId, RevocationIndex};

/// Why sessions were revoked. Ordered: a later variant replaces an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Logged out, or revoked by an operator; the IAM has not confirmed it, so a logout calls the IAM.
    LoggedOut,
    /// Reported by the IAM, but perhaps not final: the session of a user who is enabled again can be
    /// active again, and the times of a logout token and a login come from two clocks. So a logout
    /// still calls the IAM.
    Inactive,
    /// Ended at the IAM, which is final.
    Upstream,
}

impl From<Cause> for InvalidSession {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::LoggedOut => Self::Revoked,
            Cause::Inactive | Cause::Upstream => Self::Ended,
        }
    }
}

/// Which sessions a revocation ends, with the kind's number in the format that replicas share. It is never used for
/// another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromRepr)]
#[repr(u8)]
pub enum RevocationKind {
    /// One gateway session.
    Session = 1,
    /// Every gateway session that belongs to one IAM session.
    UpstreamSession = 2,
    /// All sessions of a subject that began before a time.
    Subject = 3,
    /// All sessions of an IAM that began before a time.
    Iam = 4,
}

impl RevocationKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [
        Self::Session,
        Self::UpstreamSession,
        Self::Subject,
        Self::Iam,
    ];

    /// The cause of a revocation of this kind that does not come from a client of this replica. A replica
    /// does not know whether the IAM confirmed a logout elsewhere, so it calls the IAM on its own logouts.
    #[must_use]
    pub const fn usual_cause(self) -> Cause {
        match self {
            Self::Session | Self::Iam => Cause::LoggedOut,
            Self::UpstreamSession => Cause::Upstream,
            Self::Subject => Cause::Inactive,
        }
    }
}

/// Ends one session, or all sessions of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revocation {
    /// Which sessions.
    pub kind: RevocationKind,
    /// Its id.
    pub id: RevocationId,
    /// Why.
    pub cause: Cause,
    /// Only sessions whose login began then or before are revoked, in milliseconds since 1970 on the
    /// [`Timeline`](super::super::timeline::Timeline).
    pub begun_until: u64,
    /// When all of them have expired, in seconds since 1970. The entry can be removed then.
    pub forget_at: u64,
}

impl Revocation {
    /// Where the table has it.
    #[must_use]
    pub const fn index(&self) -> RevocationIndex {
        (self.kind, self.id)
    }

    /// Revokes one gateway session, which expires at `expires_at`.
    #[must_use]
    pub fn of_session(id: RevocationId, cause: Cause, expires_at: u64) -> Self {
        Self {
            kind: RevocationKind::Session,
            id,
            cause,
            begun_until: u64::MAX,
            forget_at: by_every_clock(expires_at),
        }
    }

    /// Revokes sessions whose login began at `begun_until` or before, as the IAM reported or an operator
    /// requested. No session is valid for longer than `max_lifetime`.
    #[must_use]
    pub fn of(
        (kind, id): RevocationIndex,
        begun_until: u64,
        now: Moment,
        max_lifetime: Duration,
    ) -> Self {
        Self {
            kind,
            id,
            cause: kind.usual_cause(),
            begun_until,
            forget_at: by_every_clock(now.unix_seconds().saturating_add(max_lifetime.as_secs())),
        }
    }
}

/// When sessions that expire at this time have expired at every replica: the clock of the one that made
/// them may be ahead, and that of the one that removes the entry may be behind.
const fn by_every_clock(expires_at: u64) -> u64 {
    expires_at.saturating_add(DIFFERENCE_MAX.as_secs() * 2)
}
