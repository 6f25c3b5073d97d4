//! The simulated time, the clocks of a replica, and its random numbers.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auth_gateway_core::Random;
use auth_gateway_core::error::Internal;
use iam_adapters::{Clock, Moment};
use tokio::time::Instant;

/// The time at which every history begins, since 1970.
pub(crate) const START: Duration = Duration::from_secs(1_800_000_000);

/// The true time of one history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrueTime(Instant);

impl TrueTime {
    /// It begins now.
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Since the beginning.
    pub(crate) fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// A time that is this number of milliseconds ahead of another one.
pub(crate) fn ahead(time: Duration, millis: i64) -> Duration {
    let by = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 {
        time.saturating_sub(by)
    } else {
        time + by
    }
}

/// The clocks of one process: the wall clock is ahead by some milliseconds, and the monotonic clock is fast by
/// some millionths.
#[derive(Debug)]
pub(crate) struct ReplicaClock {
    time: TrueTime,
    started: Duration,
    ahead: AtomicI64,
    /// The sum of all settings forward, in milliseconds.
    forward: AtomicU64,
    fast: i32,
}

impl ReplicaClock {
    pub(crate) fn new(time: TrueTime, ahead: i64, fast: i32) -> Self {
        Self {
            time,
            // A process takes some time to start.
            started: time.now().saturating_sub(Duration::from_millis(1)),
            ahead: ahead.into(),
            forward: AtomicU64::new(0),
            fast,
        }
    }

    /// Sets the wall clock.
    pub(crate) fn set(&self, ahead: i64) {
        let before = self.ahead.swap(ahead, Ordering::Relaxed);
        if ahead > before {
            self.forward
                .fetch_add(ahead.abs_diff(before), Ordering::Relaxed);
        }
    }

    /// The most by which the wall clock can have been set forward since any moment.
    pub(crate) fn forward(&self) -> Duration {
        Duration::from_millis(self.forward.load(Ordering::Relaxed))
    }

    pub(crate) fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }
}

impl Clock for ReplicaClock {
    fn now(&self) -> Moment {
        let now = self.time.now();
        let ran = now.saturating_sub(self.started);
        let rate = 1.0 + f64::from(self.fast) / 1e6;
        Moment {
            unix: ahead(START + now, self.ahead()),
            monotonic: ran.mul_f64(rate),
        }
    }
}

/// Random numbers from a seed.
#[derive(Debug)]
pub(crate) struct SeededRandom(Mutex<fastrand::Rng>);

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(fastrand::Rng::with_seed(seed))))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
        self.0.lock().expect("the numbers").fill(bytes);
        Ok(())
    }
}
