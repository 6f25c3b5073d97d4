use super::*;

/// The clock of the other tests, for this build of the crate: the types of their build differ from those here.
#[derive(Debug, derive_more::Deref)]
pub(crate) struct ManualClock(test_support::ManualClock);

impl ManualClock {
    pub(crate) const fn at(unix: Duration) -> Self {
        Self(test_support::ManualClock::at(unix))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        let (unix, monotonic) = self.0.times();
        Moment { unix, monotonic }
    }
}

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
