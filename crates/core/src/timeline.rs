//! The time line on which replicas compare when a session began with the time of a revocation.
//!
//! The clocks of replicas differ, and an operator's revocation must end each session that began before
//! it, wherever. So both times are those of the store that the replicas share. Each replica measures
//! how its own clocks relate to the store's. The store is not trusted: what it says counts only
//! within a bound around the replica's own time.
//!
//! That bound holds whenever the time line is read, also if the replica was suspended since the
//! measurement. A session that a revocation ends has expired before the revocation is forgotten
//! because of it.
//!
//! The times that clients and IAMs see stay those of the replica.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{Clock, Moment, clock};
use parking_lot::Mutex;

/// How far the time line can be from the clock of a replica.
pub const DIFFERENCE_MAX: Duration = Duration::from_secs(600);

/// For this time, a measurement is preferred to later ones that confirm it and are less exact.
const PREFERRED: Duration = Duration::from_secs(30);

/// The relation of the time line to the monotonic clock. No clock setting changes the latter, but it stands still while the
/// machine is suspended.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    /// The time on the time line when the monotonic clock was zero, since 1970.
    origin: Duration,
    /// The wall clock when the monotonic clock was zero.
    wall_origin: Duration,
    /// How far the origin can be wrong.
    error: Duration,
    /// When it was made, by the monotonic clock.
    at: Duration,
}

impl Measurement {
    /// The earliest time that this moment can have.
    fn earliest(&self, moment: Moment) -> Duration {
        let earliest = (self.origin + moment.monotonic).saturating_sub(self.error);
        bounded(earliest, moment.unix)
    }

    /// The latest time that this moment can have: the wall clock shows a suspension, or it was set forward.
    fn latest(&self, moment: Moment) -> Duration {
        let by_wall = moment.unix.saturating_sub(self.wall_origin);
        let passed = moment.monotonic.max(by_wall);
        bounded(self.origin + passed + self.error, moment.unix)
    }
}

#[derive(Debug, Clone, Copy)]
enum TimelineState {
    /// There is no store, so no other replica compares these times, and they are those of the clock.
    Alone {
        /// The latest time of a session, since 1970. The clock may have been set back since.
        latest_beginning: Duration,
    },
    /// There is a store, whose time is unknown.
    Unmeasured,
    Measured(Measurement),
}

/// The time line, in milliseconds since 1970.
#[derive(Debug)]
pub struct Timeline {
    clock: Arc<dyn Clock>,
    state: Mutex<TimelineState>,
}

impl Timeline {
    /// The time line of a replica. Without others it is its own clock. With others it is that of their
    /// store, which is not measured yet.
    #[must_use]
    pub const fn new(clock: Arc<dyn Clock>, is_shared: bool) -> Self {
        let state = if is_shared {
            TimelineState::Unmeasured
        } else {
            TimelineState::Alone {
                latest_beginning: Duration::ZERO,
            }
        };
        Self {
            clock,
            state: Mutex::new(state),
        }
    }

    /// The store responded with its time, since 1970, to a question that was sent at the first of these
    /// moments, and the response arrived at the second one. Returns the [`offset`](clock::offset) of the
    /// store's clock.
    pub fn measured(&self, sent: Moment, store: Duration, received: Moment) -> f64 {
        let half = received.monotonic.saturating_sub(sent.monotonic) / 2;
        let own = received.unix.saturating_sub(half);
        let store_now = bounded(store, own) + half;
        let new = Measurement {
            origin: store_now.saturating_sub(received.monotonic),
            wall_origin: received.unix.saturating_sub(received.monotonic),
            error: half,
            at: received.monotonic,
        };
        match &mut *self.state.lock() {
            // It confirms a more exact one. The wall clock may have been set since, and the machine suspended: what the
            // store and the wall clock both advanced by is time that the monotonic clock missed.
            TimelineState::Measured(old)
                if new.error > old.error
                    && new.at.saturating_sub(old.at) < PREFERRED
                    && new.origin.abs_diff(old.origin) <= new.error + old.error =>
            {
                let by_store = new.origin.saturating_sub(old.origin);
                let by_wall = new.wall_origin.saturating_sub(old.wall_origin);
                old.wall_origin = new.wall_origin.saturating_sub(by_store.min(by_wall));
            }
            state => *state = TimelineState::Measured(new),
        }
        clock::offset(sent, store, Duration::ZERO, received)
    }

    /// The time now, for revocations: the latest that it can be, so that they miss no session.
    pub fn now(&self) -> u64 {
        let now = self.clock.now();
        millis(match *self.state.lock() {
            TimelineState::Alone { latest_beginning } => {
                bounded(latest_beginning.max(now.unix), now.unix)
            }
            TimelineState::Unmeasured => now.unix,
            TimelineState::Measured(measurement) => measurement.latest(now),
        })
    }

    pub(super) fn after(&self, duration: Duration) -> u64 {
        self.now().saturating_add(millis(duration))
    }

    /// The time of a session that began at this moment: the earliest that it can be, so that no revocation
    /// misses the session.
    pub fn beginning_at(&self, began: Moment) -> u64 {
        millis(match &mut *self.state.lock() {
            TimelineState::Alone { latest_beginning } => {
                *latest_beginning = began.unix.max(*latest_beginning);
                began.unix
            }
            TimelineState::Unmeasured => began.unix.saturating_sub(DIFFERENCE_MAX),
            TimelineState::Measured(measurement) => measurement.earliest(began),
        })
    }
}

/// The time itself, or what is nearest to it within the bound around a replica's own time.
fn bounded(time: Duration, own: Duration) -> Duration {
    time.clamp(own.saturating_sub(DIFFERENCE_MAX), own + DIFFERENCE_MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use test_support::ManualClock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOON: Duration = Duration::from_secs(1_800_000_000);

    fn timeline(is_shared: bool) -> (Arc<ManualClock>, Timeline) {
        let clock = Arc::new(ManualClock::at(NOON));
        let timeline = Timeline::new(Arc::<ManualClock>::clone(&clock), is_shared);
        (clock, timeline)
    }

    /// Measures with this time of the store half-way through a round trip. Returns the offset.
    fn measure(
        clock: &ManualClock,
        timeline: &Timeline,
        store: Duration,
        round_trip: Duration,
    ) -> f64 {
        let sent = clock.now();
        clock.advance(round_trip);
        timeline.measured(sent, store + round_trip / 2, clock.now())
    }

    #[test]
    fn time_line_is_the_time_of_the_store_whatever_the_clock_of_the_replica_says() {
        for store in [NOON.saturating_sub(300 * SECOND), NOON, NOON + 300 * SECOND] {
            let (clock, timeline) = timeline(true);
            measure(&clock, &timeline, store, SECOND);
            // Half of the round trip earlier and later.
            let earliest = millis(store + SECOND / 2);
            let latest = millis(store + SECOND * 3 / 2);
            assert_eq!(timeline.now(), latest);
            assert_eq!(timeline.beginning_at(clock.now()), earliest);
            // A clock that is set back does not move it, nor one that is set forward the times of sessions.
            clock.set_wall(NOON.saturating_sub(200 * SECOND));
            assert_eq!(timeline.now(), latest);
            clock.set_wall(NOON + 200 * SECOND);
            assert_eq!(timeline.beginning_at(clock.now()), earliest);
            let offset = measure(&clock, &timeline, NOON, Duration::ZERO);
            assert!((offset + 200.0).abs() < 0.001, "{offset}");
        }
    }

    #[test]
    fn slow_response_of_the_store_makes_no_session_later_and_no_revocation_earlier() {
        // The store reads its clock at the beginning of the round trip or at its end.
        for store in [NOON, NOON + SECOND] {
            let (clock, timeline) = timeline(true);
            let sent = clock.now();
            clock.advance(SECOND);
            timeline.measured(sent, store, clock.now());
            let store_now = millis(NOON + SECOND);
            assert!(timeline.beginning_at(clock.now()) <= store_now);
            assert!(timeline.now() >= store_now);
        }
    }

    #[test]
    fn store_moves_the_time_line_by_ten_minutes_at_most() {
        for (store, expected) in [
            (Duration::ZERO, NOON.saturating_sub(DIFFERENCE_MAX)),
            (2 * NOON, NOON + DIFFERENCE_MAX),
        ] {
            let (clock, timeline) = timeline(true);
            measure(&clock, &timeline, store, Duration::ZERO);
            assert_eq!(timeline.now(), millis(expected));
        }
    }

    /// The wall clock has advanced by five minutes, and the monotonic clock has not.
    #[test]
    fn suspended_machine_revokes_what_began_meanwhile() {
        let (clock, timeline) = timeline(true);
        measure(&clock, &timeline, NOON, Duration::ZERO);
        clock.set_wall(NOON + 300 * SECOND);
        assert_eq!(timeline.now(), millis(NOON + 300 * SECOND));
        assert_eq!(timeline.beginning_at(clock.now()), millis(NOON));
        measure(&clock, &timeline, NOON + 300 * SECOND, Duration::ZERO);
        assert_eq!(
            timeline.beginning_at(clock.now()),
            millis(NOON + 300 * SECOND)
        );
    }

    #[test]
    fn suspension_shorter_than_the_error_of_a_measurement_that_confirms_is_not_forgotten() {
        let (clock, timeline) = timeline(true);
        measure(&clock, &timeline, NOON, Duration::ZERO);
        let resumed = NOON + Duration::from_millis(400);
        clock.set_wall(resumed);
        for round_trips in 1..=2 {
            let store = resumed + (round_trips - 1) * SECOND;
            measure(&clock, &timeline, store, SECOND);
            assert_eq!(timeline.now(), millis(resumed + round_trips * SECOND));
        }
    }

    #[test]
    fn clock_that_was_set_forward_moves_no_revocation_once_the_store_has_confirmed_the_time_line() {
        let (clock, timeline) = timeline(true);
        measure(&clock, &timeline, NOON, Duration::ZERO);
        clock.set_wall(NOON + 300 * SECOND);
        measure(&clock, &timeline, NOON, SECOND);
        assert_eq!(timeline.now(), millis(NOON + SECOND));
    }

    #[test]
    fn time_line_stays_within_ten_minutes_of_a_clock_that_was_set_or_of_a_machine_that_slept() {
        let (clock, timeline) = timeline(true);
        measure(&clock, &timeline, NOON, Duration::ZERO);
        let back = NOON.saturating_sub(3_600 * SECOND);
        clock.set_wall(back);
        for time in [timeline.now(), timeline.beginning_at(clock.now())] {
            assert_eq!(time, millis(back + DIFFERENCE_MAX));
        }
        let forward = NOON + 3_600 * SECOND;
        clock.set_wall(forward);
        let earliest = millis(forward.saturating_sub(DIFFERENCE_MAX));
        assert_eq!(timeline.beginning_at(clock.now()), earliest);
        assert_eq!(timeline.now(), millis(forward));
    }

    #[test]
    fn session_that_begins_before_the_first_measurement_has_the_earliest_time() {
        let (clock, alone) = timeline(false);
        assert_eq!(alone.beginning_at(clock.now()), millis(NOON));
        let (clock, timeline) = timeline(true);
        assert_eq!(timeline.now(), millis(NOON));
        let earliest = timeline.beginning_at(clock.now());
        assert_eq!(earliest, millis(NOON.saturating_sub(DIFFERENCE_MAX)));
        // The login was in progress during the first measurement.
        let began = clock.now();
        measure(&clock, &timeline, NOON + 5 * SECOND, SECOND);
        let earliest = NOON + 4 * SECOND + SECOND / 2;
        assert_eq!(timeline.beginning_at(began), millis(earliest));
    }

    #[test]
    fn clock_of_a_replica_alone_that_is_set_back_moves_no_revocation_before_a_session() {
        let (clock, timeline) = timeline(false);
        assert_eq!(timeline.beginning_at(clock.now()), millis(NOON));
        let back = NOON.saturating_sub(30 * SECOND);
        clock.set_wall(back);
        assert_eq!(timeline.now(), millis(NOON));
        assert_eq!(timeline.beginning_at(clock.now()), millis(back));
        assert_eq!(timeline.now(), millis(NOON));
        clock.advance(31 * SECOND);
        assert_eq!(timeline.now(), millis(NOON + SECOND));
        let back = NOON.saturating_sub(3_600 * SECOND);
        clock.set_wall(back);
        assert_eq!(timeline.now(), millis(back + DIFFERENCE_MAX));
    }

    #[test]
    fn less_exact_measurement_counts_only_if_it_contradicts_or_the_other_is_old() {
        let (clock, timeline) = timeline(true);
        let difference = || timeline.now() - millis(clock.now().unix);
        measure(&clock, &timeline, NOON + SECOND, Duration::ZERO);
        assert_eq!(difference(), 1_000);
        let slow = |ahead: u64| {
            let store = clock.now().unix + Duration::from_millis(ahead);
            measure(&clock, &timeline, store, SECOND);
        };
        slow(1_400);
        assert_eq!(difference(), 1_000);
        slow(1_600);
        assert_eq!(difference(), 1_600 + 500);
        clock.advance(PREFERRED);
        slow(1_300);
        assert_eq!(difference(), 1_300 + 500);
    }
}
