//! A running clock that can be set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use iam_adapters::{Clock, Moment};
use thiserror::Error;

/// The latest time that can be set: 2255-03-14T16:00:00Z, before nanoseconds since 1970 leave 63 bits.
const LATEST: Duration = Duration::from_secs(9_000_000_000);

/// A clock with an offset to another clock.
///
/// Setting it forward increases ages; setting it back does not change them, as on a real machine.
#[derive(Debug)]
pub struct ShiftedClock {
    base: Arc<dyn Clock>,
    /// In nanoseconds, as `monotonic`.
    wall: AtomicI64,
    /// The sum of all jumps forward.
    monotonic: AtomicI64,
}

/// Why the time was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ShiftError {
    /// The requested time is before 1970 or after 2255-03-14T16:00:00Z.
    #[error("the time must lie between 1970 and 2255-03-14T16:00:00Z")]
    OutOfRange,
    /// The sum of all jumps forward would leave 63 bits of nanoseconds. Only a new clock begins without jumps.
    #[error("a clock can jump forward by 292 years in all: reset the namespace")]
    Exhausted,
}

impl ShiftedClock {
    /// Starts without an offset to `base`.
    #[must_use]
    pub const fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            wall: AtomicI64::new(0),
            monotonic: AtomicI64::new(0),
        }
    }

    /// Advances the clock.
    ///
    /// # Errors
    ///
    /// [`ShiftError`]; the clock is unchanged then.
    pub fn advance(&self, by: Duration) -> Result<(), ShiftError> {
        let unix = self.now().unix.checked_add(by);
        within(unix.ok_or(ShiftError::OutOfRange)?)?;
        let by = nanos(by)?;
        self.increase_ages(by)?;
        self.wall.fetch_add(by, Ordering::Release);
        Ok(())
    }

    /// Sets the time, since 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    ///
    /// [`ShiftError`]; the clock is unchanged then.
    pub fn set(&self, unix: Duration) -> Result<(), ShiftError> {
        within(unix)?;
        let (real, before) = (self.base.now().unix, self.now().unix);
        let skipped = nanos(unix.saturating_sub(before))?;
        let wall = nanos(unix)? - nanos(real)?;
        self.increase_ages(skipped)?;
        self.wall.store(wall, Ordering::Release);
        Ok(())
    }

    /// Moves the monotonic clock forward. A sum that wraps would set it back, and ages would stay zero.
    fn increase_ages(&self, nanos: i64) -> Result<(), ShiftError> {
        let increased = self
            .monotonic
            .fetch_update(Ordering::Release, Ordering::Acquire, |sum| {
                sum.checked_add(nanos)
            });
        increased.map(|_| ()).map_err(|_| ShiftError::Exhausted)
    }

    /// Sets the clock to real time.
    pub fn reset(&self) {
        self.wall.store(0, Ordering::Release);
    }

    /// The offset to real time.
    #[must_use]
    pub fn offset(&self) -> Offset {
        Offset(self.wall.load(Ordering::Acquire))
    }

    /// Takes the offset of another clock.
    pub fn follow(&self, offset: Offset) {
        self.wall.store(offset.0, Ordering::Release);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Moment {
        let real = self.base.now();
        Moment {
            unix: shifted(real.unix, self.wall.load(Ordering::Acquire)),
            monotonic: shifted(real.monotonic, self.monotonic.load(Ordering::Acquire)),
        }
    }
}

/// The offset of a clock to real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset(i64);

impl Offset {
    /// In seconds; negative if the clock is behind.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display, in milliseconds")]
    pub const fn seconds(self) -> f64 {
        (self.0 / 1_000_000) as f64 / 1e3
    }
}

fn within(unix: Duration) -> Result<(), ShiftError> {
    (unix <= LATEST).then_some(()).ok_or(ShiftError::OutOfRange)
}

fn nanos(time: Duration) -> Result<i64, ShiftError> {
    i64::try_from(time.as_nanos()).map_err(|_| ShiftError::OutOfRange)
}

fn shifted(time: Duration, by: i64) -> Duration {
    let distance = Duration::from_nanos(by.unsigned_abs());
    if by < 0 {
        time.saturating_sub(distance)
    } else {
        time.saturating_add(distance)
    }
}

#[cfg(test)]
mod tests {
    use crate::ManualClock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOON: Duration = Duration::from_secs(1_800_000_000);
    const ELEVEN: Duration = Duration::from_secs(1_800_000_000 - 3600);

    fn clocks() -> (Arc<ManualClock>, ShiftedClock) {
        let real = Arc::new(ManualClock::at(NOON));
        (Arc::clone(&real), ShiftedClock::new(real))
    }

    #[test]
    fn advancing_moves_both_clocks_and_they_continue() {
        let (real, clock) = clocks();
        let before = clock.now();
        clock.advance(HOUR).expect("in range");
        assert_eq!(clock.now().since(before), HOUR);
        real.advance(HOUR);
        assert_eq!(clock.now().unix, NOON + 2 * HOUR);
        assert_eq!(clock.now().since(before), 2 * HOUR);
        assert!((clock.offset().seconds() - 3600.0).abs() < 1e-9);
    }

    #[test]
    fn clock_that_is_set_back_keeps_ages() {
        let (_, clock) = clocks();
        clock.advance(HOUR).expect("in range");
        let before = clock.now();
        clock.set(ELEVEN).expect("in range");
        assert_eq!(clock.now().unix, ELEVEN);
        assert_eq!(clock.now().monotonic, before.monotonic);
        assert!((clock.offset().seconds() + 3600.0).abs() < 1e-9);
        clock.reset();
        assert_eq!(clock.now().unix, NOON);
        assert_eq!(clock.now().monotonic, before.monotonic);
    }

    #[test]
    fn time_outside_of_the_range_is_refused() {
        let (_, clock) = clocks();
        let out_of_range = Err(ShiftError::OutOfRange);
        assert_eq!(clock.set(LATEST + HOUR), out_of_range);
        assert_eq!(clock.advance(LATEST), out_of_range);
        assert_eq!(clock.advance(Duration::MAX), out_of_range);
        assert_eq!(clock.now().unix, NOON);
        clock.set(LATEST).expect("in range");
        clock.set(Duration::ZERO).expect("in range");
    }

    #[test]
    fn jumps_that_would_set_the_monotonic_clock_back_are_refused() {
        let (_, clock) = clocks();
        clock.set(LATEST).expect("in range");
        clock.reset();
        let before = clock.now();
        assert_eq!(clock.set(LATEST), Err(ShiftError::Exhausted));
        assert_eq!(
            clock.advance(LATEST.saturating_sub(NOON)),
            Err(ShiftError::Exhausted)
        );
        assert_eq!(clock.now(), before);
        clock.advance(HOUR).expect("in range");
        assert_eq!(clock.now().since(before), HOUR);
    }
}
