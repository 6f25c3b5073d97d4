//! Time as an argument, so that tests control it.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far the wall clock may fall behind the monotonic clock before cached data counts as stale. Time
/// servers correct by less; a clock that is set back by more would keep ended sessions active.
const BACKWARD_JUMP: Duration = Duration::from_secs(60);

/// A point in time on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Since 1970-01-01T00:00:00Z; jumps when the clock is set.
    pub unix: Duration,
    /// Since a fixed point in this process; stops while the machine is suspended.
    pub monotonic: Duration,
}

impl Moment {
    /// The time since `earlier`: the longer one of both clocks, because a suspended machine stops the
    /// monotonic clock, and the wall clock can be set back. [`Duration::MAX`] if the wall clock was set
    /// back by more than a minute.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let monotonic = self.monotonic.saturating_sub(earlier.monotonic);
        if self.unix + BACKWARD_JUMP < earlier.unix + monotonic {
            return Duration::MAX;
        }
        monotonic.max(self.unix.saturating_sub(earlier.unix))
    }

    /// Whole seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn unix_seconds(self) -> u64 {
        self.unix.as_secs()
    }
}

/// By how many seconds another clock is ahead of this one (RFC 5905: offset), or behind as a negative number:
/// at least. Between two moments of this clock, the other one had a time from `other`, since 1970, until
/// `resolution` later. So a slow response shows less of a difference. 0: the clocks may agree.
#[must_use]
pub fn offset(sent: Moment, other: Duration, resolution: Duration, received: Moment) -> f64 {
    // The clock may have been set between them.
    let first = sent.unix.min(received.unix).as_secs_f64();
    let last = sent.unix.max(received.unix).as_secs_f64();
    let other = other.as_secs_f64();
    0.0_f64.clamp(other - last, other + resolution.as_secs_f64() - first)
}

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Moment;
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    fn now(&self) -> Moment {
        Moment {
            // A clock that was set to a time before 1970 reads as 1970.
            unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            monotonic: self.started.elapsed(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
