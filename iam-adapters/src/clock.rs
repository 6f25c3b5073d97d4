//! Time as an argument, so that a test moves it by hand.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

mod shifted;

pub use shifted::{Offset, OutOfRange, ShiftedClock};

/// How far the wall clock may fall behind the monotonic one before knowledge is called stale.
/// Time servers correct by less; whoever sets a clock back by more would otherwise keep ended
/// sessions alive.
const BACKWARD_JUMP: Duration = Duration::from_secs(60);

/// One moment, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Since 1970-01-01T00:00:00Z; jumps when somebody sets the clock.
    pub unix: Duration,
    /// Since some fixed point of this process; stands still while the machine is suspended.
    pub monotonic: Duration,
}

impl Moment {
    /// How long ago `earlier` was, by whichever clock says longer: a suspended machine stops the
    /// one, a clock set back the other. A wall clock that jumped back makes the age infinite.
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

/// Where the time comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Moment;
}

/// The machine's clocks.
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
            // Before 1970 every session has not begun yet, and everything fails closed.
            unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            monotonic: self.started.elapsed(),
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(Mutex<Moment>);

impl ManualClock {
    /// Stands at the given time since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn at(unix: Duration) -> Self {
        Self(Mutex::new(Moment {
            unix,
            monotonic: Duration::ZERO,
        }))
    }

    /// Lets both clocks run on.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        now.unix += by;
        now.monotonic += by;
    }

    /// Sets the wall clock alone, as an operator does.
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
    fn an_age_is_the_longer_of_the_two_clocks() {
        let then = moment(1_000, 10);
        assert_eq!(moment(1_005, 15).since(then), Duration::from_secs(5));
        assert_eq!(moment(4_600, 11).since(then), Duration::from_secs(3_600));
        assert_eq!(moment(990, 40).since(then), Duration::from_secs(30));
    }

    #[test]
    fn a_wall_clock_set_back_by_more_than_a_minute_makes_everything_old() {
        let then = moment(1_000, 10);
        assert_eq!(moment(940, 10).since(then), Duration::ZERO);
        assert_eq!(moment(939, 10).since(then), Duration::MAX);
        assert_eq!(moment(1_000, 71).since(then), Duration::MAX);
    }
}
