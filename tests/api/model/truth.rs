//! What is true, and since when. All times are those of a clock that nobody sets, since the
//! beginning of the scenario.

use std::time::Duration;

use super::names::Names;
use super::replica::Pair;
use super::scenario::REPLICAS;

/// A value over time.
#[derive(Debug)]
pub(super) struct History<T>(Vec<Era<T>>);

/// From when until when it held. The moment of a change belongs to both.
#[derive(Debug, Clone, Copy)]
struct Era<T> {
    value: T,
    from: Duration,
    until: Duration,
}

impl<T: Copy + PartialEq> History<T> {
    pub(super) fn new(value: T) -> Self {
        Self(vec![Era {
            value,
            from: Duration::ZERO,
            until: Duration::MAX,
        }])
    }

    pub(super) fn change(&mut self, value: T, now: Duration) {
        let era = self.0.last_mut().expect("an era");
        if era.value != value {
            era.until = now;
            self.0.push(Era {
                value,
                from: now,
                until: Duration::MAX,
            });
        }
    }

    pub(super) fn now(&self) -> T {
        self.0.last().expect("an era").value
    }

    /// Whether such a value held at some moment within the window. It is shown with the time from
    /// when it held.
    pub(super) fn ever(&self, window: Window, wanted: impl Fn(T, Duration) -> bool) -> bool {
        let eras = self.0.iter().rev();
        let mut eras = eras.take_while(|era| window.reaches(era.until));
        eras.any(|era| wanted(era.value, era.from))
    }
}

/// The time in which that was true which a token may rest on: later than this; none: ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window(Option<Duration>);

impl Window {
    /// Less than `bound` ago.
    pub(super) fn before(now: Duration, bound: Duration) -> Self {
        Self(now.checked_sub(bound))
    }

    /// Nor before this.
    pub(super) fn and_not_before(self, moment: Option<Duration>) -> Self {
        // Whatever changes at that very moment may be seen as it was before.
        let after = moment.and_then(|moment| moment.checked_sub(Duration::from_nanos(1)));
        Self(self.0.max(after))
    }

    /// Whether what was true until then was true within it.
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

/// How a replica knows that a session is over, of which it never again thinks otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// Its client logged out there, and the IAM may not have heard of it.
    LoggedOut,
    /// The IAM said so, which need not be its last word.
    Inactive,
    /// The IAM ended it.
    Ended,
}

/// A session.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) user: usize,
    pub(super) pair: Pair,
    /// The IAM's id of it.
    pub(super) upstream: String,
    /// When its login was sent, by the clock of its replica, in seconds since 1970.
    pub(super) sent_at: u64,
    /// When it ends at the IAM by itself.
    pub(super) promised_until: Duration,
    /// When it ended there before that.
    pub(super) ended: Option<Duration>,
    pub(super) known: [Option<Known>; REPLICAS],
}

impl Life {
    /// Whether the IAM would call it alive.
    pub(super) fn is_alive(&self, user: &User, now: Duration) -> bool {
        user.enabled.now() && self.ended.is_none() && now < self.promised_until
    }

    /// Whether the IAM would have called it alive at some moment within the window.
    pub(super) fn was_alive(&self, user: &User, window: Window) -> bool {
        let end = self.ended.unwrap_or(Duration::MAX);
        let end = end.min(self.promised_until);
        window.reaches(end) && user.enabled.ever(window, |on, from| on && from <= end)
    }
}
