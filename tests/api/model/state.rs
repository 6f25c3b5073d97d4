//! The true state over time, by a clock that is never set, since the beginning of the scenario.

use std::time::Duration;

use auth_gateway_core::timeline::DIFFERENCE_MAX;

use super::names::Names;
use super::replica::Pair;
use super::scenario::REPLICAS;

/// A value over time.
#[derive(Debug)]
pub(super) struct History<T>(Vec<Period<T>>);

/// A value and its period. The moment of a change belongs to both periods.
#[derive(Debug, Clone, Copy)]
struct Period<T> {
    value: T,
    from: Duration,
    until: Duration,
}

impl<T: Copy + PartialEq> History<T> {
    pub(super) fn new(value: T) -> Self {
        Self(vec![Period {
            value,
            from: Duration::ZERO,
            until: Duration::MAX,
        }])
    }

    pub(super) fn change(&mut self, value: T, now: Duration) {
        let period = self.0.last_mut().expect("an period");
        if period.value != value {
            period.until = now;
            self.0.push(Period {
                value,
                from: now,
                until: Duration::MAX,
            });
        }
    }

    pub(super) fn now(&self) -> T {
        self.0.last().expect("an period").value
    }

    /// Whether such a value held at some moment of the window. The second argument is the start of
    /// its period.
    pub(super) fn ever(&self, window: Window, wanted: impl Fn(T, Duration) -> bool) -> bool {
        let periods = self.0.iter().rev();
        let mut periods = periods.take_while(|period| window.reaches(period.until));
        periods.any(|period| wanted(period.value, period.from))
    }
}

/// The time that a token may rest on: later than this; `None`: any time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window(Option<Duration>);

impl Window {
    /// Less than `bound` ago.
    pub(super) fn before(now: Duration, bound: Duration) -> Self {
        Self(now.checked_sub(bound))
    }

    /// And not before this moment.
    pub(super) fn and_not_before(self, moment: Option<Duration>) -> Self {
        // The state before a change at this very moment is also allowed.
        let after = moment.and_then(|moment| moment.checked_sub(Duration::from_nanos(1)));
        Self(self.0.max(after))
    }

    /// Whether a state until then lies in the window.
    fn reaches(self, until: Duration) -> bool {
        self.0.is_none_or(|after| until > after)
    }
}

/// A user at the IAM.
#[derive(Debug)]
pub(super) struct User {
    pub(super) email: String,
    pub(super) subject: String,
    pub(super) enabled: History<bool>,
    pub(super) names: History<Names>,
}

impl User {
    pub(super) const PASSWORD: &str = "Correct1!";
}

/// How a replica knows that a session is over. It never changes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KnownEnd {
    /// A logout at the replica, which the IAM may not have received.
    LoggedOut,
    /// The IAM reported it as inactive.
    Inactive,
    /// The IAM ended it.
    Ended,
}

/// A session.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) user: usize,
    pub(super) pair: Pair,
    /// The IAM's id of it.
    pub(super) upstream: String,
    /// When its login was sent, on the time line of the replicas, in seconds since 1970.
    pub(super) sent_at: u64,
    /// When it expires at the IAM.
    pub(super) expires_at: Duration,
    /// When it ended at the IAM before that.
    pub(super) ended: Option<Duration>,
    pub(super) known: [Option<KnownEnd>; REPLICAS],
    /// Whether a logout at the replica failed, so that the replica must finish it.
    pub(super) unfinished: [bool; REPLICAS],
}

impl SessionState {
    /// When it has expired by every clock, in seconds since 1970 by any of them: that of the replica which made it may be
    /// ahead, and that of another one behind.
    pub(super) fn expired_by_every_clock_at(&self) -> u64 {
        self.pair.expires_at + 2 * DIFFERENCE_MAX.as_secs()
    }

    /// Whether it is active at the IAM.
    pub(super) fn is_active(&self, user: &User, now: Duration) -> bool {
        user.enabled.now() && self.ended.is_none() && now < self.expires_at
    }

    /// Whether it was active at the IAM at some moment of the window.
    pub(super) fn was_alive(&self, user: &User, window: Window) -> bool {
        let end = self.ended.unwrap_or(Duration::MAX);
        let end = end.min(self.expires_at);
        window.reaches(end) && user.enabled.ever(window, |on, from| on && from <= end)
    }
}
