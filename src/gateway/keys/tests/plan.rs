//! When a rotation makes a key, and which ones it takes away.

use super::*;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 24 * 3600;
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);
const TIMES: Times = Times {
    max_age: Duration::from_secs(300),
    lifetime: Duration::from_secs(3600),
};

/// From the first use of its successor on, in seconds.
const HONOURED: i64 = 3600 + 2 * 360;

fn planned(first_uses: &[i64], every: Duration) -> (Option<i64>, Vec<usize>) {
    let first_uses: Vec<_> = first_uses
        .iter()
        .map(|first_use| time(*first_use))
        .collect();
    let plan = plan(&first_uses, TIMES, every, time(NOW));
    (plan.next.map(|next| next.as_second() - NOW), plan.retired)
}

#[test]
fn the_first_key_is_made_to_be_used_at_once() {
    assert_eq!(planned(&[], MONTH), (Some(0), vec![]));
}

#[test]
fn the_next_key_is_made_in_time_to_be_seen_before_it_is_used() {
    for (age, next) in [
        (0, None),
        (29 * DAY, None),
        (30 * DAY - 361, None),
        (30 * DAY - 360, Some(360)),
        (90 * DAY, Some(360)),
    ] {
        assert_eq!(planned(&[NOW - age], MONTH), (next, vec![]), "{age}");
    }
}

#[test]
fn while_a_key_waits_no_other_is_made() {
    for every in [Duration::ZERO, MONTH] {
        for waits in [1, 360, 90 * DAY] {
            let planned = planned(&[NOW - 90 * DAY, NOW + waits], every);
            assert_eq!(planned, (None, vec![]), "{waits}");
        }
    }
    assert_eq!(planned(&[NOW], Duration::ZERO), (Some(360), vec![]));
}

#[test]
fn a_key_is_taken_away_once_nothing_that_it_made_can_be_alive() {
    for (since, retired) in [(0, vec![]), (HONOURED - 1, vec![]), (HONOURED, vec![0])] {
        let planned = planned(&[NOW - 30 * DAY, NOW - since], MONTH);
        assert_eq!(planned, (None, retired), "{since}");
    }
    let many = [
        NOW - 9 * DAY,
        NOW - 8 * DAY,
        NOW - 7 * DAY,
        NOW - 10,
        NOW + 10,
    ];
    assert_eq!(planned(&many, MONTH), (None, vec![0, 1]));
}

#[test]
fn what_is_kept_is_what_a_gateway_still_honours() {
    let first_uses = [NOW - 9 * DAY, NOW - HONOURED, NOW - HONOURED + 1, NOW + 100];
    let secret: Vec<u8> = (0..32).collect();
    let keys = first_uses.iter().enumerate().map(|(place, first_use)| {
        SealingKey::new(&secret, &place.to_string(), time(*first_use)).unwrap()
    });
    let ring = KeyRing::new(keys.collect()).unwrap();
    let now = at(NOW.unsigned_abs());
    let overlap = overlap(TIMES.lifetime, TIMES.max_age);
    let honoured: Vec<_> = ring.honoured(now, overlap).map(Dated::kid).collect();
    assert_eq!(honoured, ["1", "2", "3"]);
    assert_eq!(planned(&first_uses, MONTH), (None, vec![0]));
}

#[test]
fn every_key_has_one_standing() {
    use Standing::{HonouredUntil, InUse, RetiredSince, Waiting};
    let first_uses = [NOW - 9 * DAY, NOW - 8 * DAY, NOW - 10, NOW + 10, NOW + 20].map(time);
    let told = standing(&first_uses, TIMES, time(NOW));
    let (retired, honoured) = (time(NOW - 8 * DAY + HONOURED), time(NOW - 10 + HONOURED));
    assert_eq!(
        told,
        [
            RetiredSince(retired),
            HonouredUntil(honoured),
            InUse,
            Waiting,
            Waiting
        ]
    );
    // Before the first of all has come, that one.
    let told = standing(&[NOW + 10, NOW + 20].map(time), TIMES, time(NOW));
    assert_eq!(told, [InUse, Waiting]);
    assert!(standing(&[], TIMES, time(NOW)).is_empty());
}
