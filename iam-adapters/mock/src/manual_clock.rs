//! A clock that stands still.

use std::time::Duration;

use iam_adapters::{Clock, Moment};
use parking_lot::Mutex;

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
        let mut now = self.0.lock();
        now.unix += by;
        now.monotonic += by;
    }

    /// Sets only the wall clock, as an operator does.
    pub fn set_wall(&self, unix: Duration) {
        self.0.lock().unix = unix;
    }

    /// The times of the wall clock and of the monotonic clock, for another build of [`Clock`].
    pub fn times(&self) -> (Duration, Duration) {
        let now = self.now();
        (now.unix, now.monotonic)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        *self.0.lock()
    }
}
