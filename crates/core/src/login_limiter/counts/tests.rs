use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// This number of failures, each of which expires in a second.
fn quota(failures: u32) -> Quota {
    let window = Duration::from_secs(failures.into());
    Quota::of(Bound {
        most: failures,
        window,
    })
    .unwrap()
}

const fn settlement(failed: bool) -> Settlement {
    if failed {
        Settlement::Count
    } else {
        Settlement::Release
    }
}

/// The number of tracked keys.
fn tracked(counts: &Counts) -> usize {
    let shards = counts.0.iter();
    shards.map(|shard| shard.lock().counts.len()).sum()
}

/// An event of one key.
#[derive(Debug, Clone)]
enum Step {
    Begin,
    /// An attempt in flight ends, as a failure or not.
    End(bool),
    /// In milliseconds.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Begin),
        4 => any::<bool>().prop_map(Step::End),
        1 => (0..4_000u64).prop_map(Step::Wait),
    ]
}

/// The exact reference: failures expire one after the other, one per second. Returns the time until the
/// last one has expired.
fn outstanding(failures: &[u64], now: u64) -> u64 {
    let done_at = failures
        .iter()
        .fold(0, |done_at: u64, at| done_at.max(*at) + SECOND);
    done_at.saturating_sub(now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn attempt_is_admitted_exactly_if_the_limit_holds_when_all_in_flight_fail(
        most in 1..8u32,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let (counts, quota) = (Counts::default(), quota(most));
        let (mut now, mut pending, mut failures) = (SECOND, 0u64, Vec::new());
        for step in steps {
            match step {
                Step::Wait(milliseconds) => now += milliseconds * 1_000_000,
                Step::End(failed) if pending > 0 => {
                    pending -= 1;
                    counts.settle(1, quota, now, settlement(failed));
                    if failed {
                        failures.push(now);
                    }
                }
                Step::End(..) => {}
                Step::Begin => {
                    let full = outstanding(&failures, now) + (pending + 1) * SECOND
                        > u64::from(most) * SECOND;
                    prop_assert_eq!(counts.room(1, quota, now).is_err(), full);
                    match counts.take(1, quota, now) {
                        Ok(taken) => {
                            prop_assert!(!full && taken);
                            pending += 1;
                        }
                        Err(wait) => {
                            prop_assert!(full && wait > 0);
                            // The exact time to wait if nothing is in flight.
                            if pending == 0 {
                                prop_assert_eq!(counts.room(1, quota, now + wait), Ok(()));
                                prop_assert!(counts.room(1, quota, now + wait - 1).is_err());
                            }
                        }
                    }
                }
            }
        }
        // Any period has at most the limit, plus one for each second.
        for (first, from) in failures.iter().enumerate() {
            for (last, to) in failures.iter().enumerate().skip(first) {
                let count = u64::try_from(last - first + 1).unwrap();
                prop_assert!(count <= u64::from(most) + (to - from) / SECOND);
            }
        }
        // Released attempts leave no entry.
        if pending == 0 && outstanding(&failures, now) == 0 {
            prop_assert_eq!(counts.take(2, quota, now), Ok(true));
            counts.settle(2, quota, now, Settlement::Release);
            prop_assert!(tracked(&counts) <= 1);
        }
    }
}

#[test]
fn successful_attempt_leaves_no_entry() {
    let (counts, quota) = (Counts::default(), quota(3));
    for key in 0..1_000 {
        assert_eq!(counts.take(key, quota, 0), Ok(true));
        counts.settle(key, quota, 0, Settlement::Release);
    }
    assert_eq!(tracked(&counts), 0);
}

/// Fails once with each key. Returns how many were tracked.
fn fail(counts: &Counts, keys: impl Iterator<Item = u64>, quota: Quota, now: u64) -> usize {
    let mut tracked = 0;
    for key in keys {
        if counts.take(key, quota, now).unwrap() {
            tracked += 1;
            counts.settle(key, quota, now, Settlement::Count);
        }
    }
    tracked
}

#[test]
fn full_table_keeps_its_entries_and_does_not_track_new_keys() {
    let (counts, quota, room) = (Counts::default(), quota(2), SHARDS * CAPACITY);
    let offender = 7;
    assert_eq!(fail(&counts, [offender; 2].into_iter(), quota, 0), 2);
    assert!(counts.take(offender, quota, 0).is_err());
    assert_eq!(fail(&counts, 1_000..600_000, quota, 0), room - 1);
    assert_eq!(tracked(&counts), room);
    assert!(counts.take(offender, quota, 0).is_err());
    assert_eq!(counts.take(999_999, quota, 0), Ok(false));
}

#[test]
fn expired_entries_are_replaced_and_entries_in_flight_are_not() {
    let (counts, quota, room) = (Counts::default(), quota(2), SHARDS * CAPACITY);
    assert_eq!(counts.take(7, quota, 0), Ok(true));
    fail(&counts, 1_000..600_000, quota, 0);
    assert_eq!(tracked(&counts), room);
    assert_eq!(fail(&counts, 600_000..700_000, quota, SECOND), 100_000);
    assert!(tracked(&counts) < room);
    counts.settle(7, quota, SECOND, Settlement::Count);
    assert_eq!(counts.take(7, quota, SECOND), Ok(true));
    assert!(counts.take(7, quota, SECOND).is_err());
}

#[test]
fn full_table_takes_the_documented_memory() {
    let (counts, quota) = (Counts::default(), quota(2));
    for key in 0..2_000_000 {
        if counts.take(key, quota, 0) == Ok(true) {
            let settlement = settlement(key % 3 == 0);
            counts.settle(key, quota, 0, settlement);
        }
    }
    assert_eq!(tracked(&counts), SHARDS * CAPACITY);
    let shards = counts.0.iter();
    let capacity: usize = shards.map(|shard| shard.lock().counts.capacity()).sum();
    // An entry is a key, a count and a control byte of the map.
    let entry = size_of::<(u64, Count)>() + 1;
    assert_eq!(entry, 25);
    let bytes = capacity / 7 * 8 * entry;
    assert!(bytes <= 13 * 1024 * 1024, "{bytes}");
}
