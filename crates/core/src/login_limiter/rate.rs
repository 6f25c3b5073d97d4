//! The rate of logins that reach an IAM from this replica, for all accounts together, and that of logout
//! tokens from an IAM.

use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::Mutex;

use super::counts::{Count, Quota};
use super::nanoseconds;

/// A number of logins in a time. As many may come at once; as many again are reserved for known
/// networks, so that these log in at the full rate during a flood from others.
#[derive(Debug)]
pub struct Rate {
    quota: Quota,
    with_reserve: Quota,
    count: Mutex<Count>,
}

impl Rate {
    /// A number per second, of which nothing is used.
    #[must_use]
    pub fn new(per_second: NonZeroU32) -> Self {
        Self::within(per_second, Duration::from_secs(1))
    }

    /// A number in this time, of which nothing is used.
    pub(crate) fn within(most: NonZeroU32, time: Duration) -> Self {
        let quota = Quota::new(most, time);
        Self {
            quota,
            with_reserve: quota.doubled(),
            count: Mutex::default(),
        }
    }

    /// Takes one at this time of the monotonic clock, without the reserve. Returns whether it was left.
    pub(crate) fn admits(&self, now: Duration) -> bool {
        self.take(nanoseconds(now), || false).is_ok()
    }

    /// Whether anything is left, the reserve included; if not, the time until something is.
    pub(super) fn left(&self, now: u64) -> Result<(), u64> {
        self.count.lock().room(self.with_reserve, now)
    }

    /// Takes one. `reserve` is called only if nothing else is left.
    pub(super) fn take(&self, now: u64, reserve: impl FnOnce() -> bool) -> Result<(), u64> {
        let mut count = self.count.lock();
        if let Err(wait) = count.room(self.quota, now) {
            count.room(self.with_reserve, now)?;
            if !reserve() {
                return Err(wait);
            }
        }
        count.count(self.quota, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn taken(rate: &Rate, now: u64, reserve: bool) -> usize {
        std::iter::from_fn(|| rate.take(now, || reserve).ok()).count()
    }

    #[test]
    fn burst_has_one_second_for_all_networks_and_one_for_known_networks() {
        let rate = Rate::new(NonZeroU32::new(20).unwrap());
        assert_eq!(taken(&rate, 0, false), 20);
        assert_eq!(rate.left(0), Ok(()));
        assert_eq!(taken(&rate, 0, true), 20);
        assert_eq!(rate.left(0), Err(SECOND / 20));
        assert_eq!(rate.take(0, || true), Err(SECOND / 20));
        // Known networks come first until the reserve is full again.
        assert_eq!(taken(&rate, SECOND / 2, false), 0);
        assert_eq!(taken(&rate, SECOND / 2, true), 10);
        assert_eq!(taken(&rate, 60 * SECOND, false), 20);
    }

    #[test]
    fn no_interval_admits_more_than_the_rate_and_a_burst_of_two_seconds() {
        let rate = Rate::new(NonZeroU32::new(7).unwrap());
        let mut taken_in_all = 0;
        for step in 0..10_000 {
            taken_in_all += taken(&rate, step * SECOND / 100, step % 3 == 0);
        }
        assert!((700..=714).contains(&taken_in_all), "{taken_in_all}");
    }
}
