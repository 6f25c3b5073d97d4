//! Time as an argument, so that tests control it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
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
            // A clock before 1970 reads as 1970: every session begins in the future, and is refused.
            unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            monotonic: self.started.elapsed(),
        }
    }
}

/// A clock for tests, which stands still until it is set.
#[derive(Debug)]
pub struct ManualClock(Mutex<Moment>);

impl ManualClock {
    /// Starts at this time since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn at(unix: Duration) -> Self {
        Self(Mutex::new(Moment {
            unix,
            monotonic: Duration::ZERO,
        }))
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        now.unix += by;
        now.monotonic += by;
    }

    /// Sets only the wall clock, as an operator does.
    pub fn set_wall(&self, unix: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unix = unix;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn moment(unix: u64, monotonic: u64) -> Moment {
        Moment {
            unix: Duration::from_secs(unix),
            monotonic: Duration::from_secs(monotonic),
        }
    }

    #[test]
    fn age_is_the_longer_one_of_both_clocks() {
        let then = moment(1_000, 10);
        assert_eq!(moment(1_005, 15).since(then), Duration::from_secs(5));
        assert_eq!(moment(4_600, 11).since(then), Duration::from_secs(3_600));
        assert_eq!(moment(990, 40).since(then), Duration::from_secs(30));
    }

    #[test]
    fn wall_clock_set_back_by_more_than_a_minute_makes_every_age_infinite() {
        let then = moment(1_000, 10);
        assert_eq!(moment(940, 10).since(then), Duration::ZERO);
        assert_eq!(moment(939, 10).since(then), Duration::MAX);
        assert_eq!(moment(1_000, 71).since(then), Duration::MAX);
    }

    #[test]
    fn offset_is_no_more_than_the_round_trip_and_the_resolution_prove() {
        for (sent, received, other, resolution, expected) in [
            (1_000, 1_000, 1_000, 0, 0.0),
            (1_000, 1_000, 960, 0, -40.0),
            (1_000, 1_000, 1_040, 0, 40.0),
            // A second that began before it was read.
            (1_000, 1_000, 960, 1, -39.0),
            (1_000, 1_000, 1_040, 1, 40.0),
            (1_000, 1_000, 999, 1, 0.0),
            // Somewhere in the round trip.
            (1_000, 1_010, 1_040, 1, 30.0),
            (1_000, 1_010, 960, 1, -39.0),
            (1_000, 1_050, 1_040, 1, 0.0),
            // The clock was set back by 50 s.
            (1_050, 1_000, 1_010, 1, 0.0),
            (1_050, 1_000, 960, 1, -39.0),
        ] {
            let resolution = Duration::from_secs(resolution);
            let other = Duration::from_secs(other);
            let offset = offset(moment(sent, 10), other, resolution, moment(received, 60));
            assert!((offset - expected).abs() < 0.001, "{expected}: {offset}");
        }
    }
}
