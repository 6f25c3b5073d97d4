//! A clock that somebody moves while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use thiserror::Error;

use super::{Clock, Moment};

/// The latest time that can be set: in 2254, before nanoseconds since 1970 leave 63 bits.
const LATEST: Duration = Duration::from_secs(9_000_000_000);

/// A clock that runs as another does, ahead of it or behind.
///
/// Time that is skipped has passed for whoever measures an age; a clock that is set back leaves
/// ages as they are, as on a real machine.
#[derive(Debug)]
pub struct ShiftedClock {
    base: Arc<dyn Clock>,
    /// In nanoseconds, as is the other.
    wall: AtomicI64,
    monotonic: AtomicI64,
}

/// The time asked for is before 1970 or after 2254.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the time must lie between 1970 and 2254")]
pub struct OutOfRange;

impl ShiftedClock {
    /// Shows what `base` shows, for now.
    #[must_use]
    pub const fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            wall: AtomicI64::new(0),
            monotonic: AtomicI64::new(0),
        }
    }

    /// Lets so much time pass at once.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`]; nothing has changed then.
    pub fn advance(&self, by: Duration) -> Result<(), OutOfRange> {
        within(self.now().unix.checked_add(by).ok_or(OutOfRange)?)?;
        let by = nanos(by)?;
        self.monotonic.fetch_add(by, Ordering::Release);
        self.wall.fetch_add(by, Ordering::Release);
        Ok(())
    }

    /// Sets the time, since 1970-01-01T00:00:00Z. It runs on from there.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`]; nothing has changed then.
    pub fn set(&self, unix: Duration) -> Result<(), OutOfRange> {
        within(unix)?;
        let (real, before) = (self.base.now().unix, self.now().unix);
        let skipped = nanos(unix.saturating_sub(before))?;
        let wall = nanos(unix)? - nanos(real)?;
        self.monotonic.fetch_add(skipped, Ordering::Release);
        self.wall.store(wall, Ordering::Release);
        Ok(())
    }

    /// Shows the real time again.
    pub fn reset(&self) {
        self.wall.store(0, Ordering::Release);
    }

    /// How far it is ahead of real time; negative: behind.
    #[must_use]
    pub fn offset(&self) -> Offset {
        Offset(self.wall.load(Ordering::Acquire))
    }

    /// Goes ahead of real time as another clock does.
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

/// How far a clock is ahead of real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset(i64);

impl Offset {
    /// In seconds; negative where it is behind.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "told to people, to the millisecond"
    )]
    pub const fn seconds(self) -> f64 {
        (self.0 / 1_000_000) as f64 / 1e3
    }
}

fn within(unix: Duration) -> Result<(), OutOfRange> {
    (unix <= LATEST).then_some(()).ok_or(OutOfRange)
}

fn nanos(time: Duration) -> Result<i64, OutOfRange> {
    time.as_nanos().try_into().map_err(|_| OutOfRange)
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
    use super::*;
    use crate::clock::ManualClock;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOON: Duration = Duration::from_secs(1_800_000_000);
    const ELEVEN: Duration = Duration::from_secs(1_800_000_000 - 3600);

    fn clocks() -> (Arc<ManualClock>, ShiftedClock) {
        let real = Arc::new(ManualClock::at(NOON));
        (Arc::clone(&real), ShiftedClock::new(real))
    }

    #[test]
    fn time_that_is_skipped_has_passed_by_both_clocks_and_runs_on() {
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
    fn a_clock_set_back_shows_so_and_its_ages_do_not_shrink() {
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
    fn no_time_outside_of_the_range_is_taken() {
        let (_, clock) = clocks();
        assert_eq!(clock.set(LATEST + HOUR), Err(OutOfRange));
        assert_eq!(clock.advance(LATEST), Err(OutOfRange));
        assert_eq!(clock.advance(Duration::MAX), Err(OutOfRange));
        assert_eq!(clock.now().unix, NOON);
        clock.set(LATEST).expect("in range");
        clock.set(Duration::ZERO).expect("in range");
    }
}
