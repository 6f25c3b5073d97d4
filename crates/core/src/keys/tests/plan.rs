//! When a rotation creates a key, and which ones it retires.

use super::*;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 24 * 3600;
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);
const TIMES: Times = Times {
    max_age: Duration::from_secs(300),
    lifetime: Duration::from_secs(3600),
};

/// How long a key is honoured after the first use of its successor, in seconds.
const HONOURED: i64 = 3600 + 2 * 360;

fn planned(first_uses: &[i64], every: Duration) -> (Option<i64>, Vec<usize>) {
    let files: Vec<_> = first_uses
        .iter()
        .map(|first_use| (first_use - NOW, first_use - NOW))
        .collect();
    let plan = plan(&file_times(&files), TIMES, every, time(NOW));
    (plan.next.map(|next| next.as_second() - NOW), plan.retired)
}

#[test]
fn first_key_is_used_at_once() {
    assert_eq!(planned(&[], MONTH), (Some(0), vec![]));
}

#[test]
fn next_key_is_created_early_enough_for_verifiers_to_fetch_it() {
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
fn no_key_is_created_while_another_one_waits() {
    for every in [Duration::ZERO, MONTH] {
        for waits in [1, 360, 90 * DAY] {
            let planned = planned(&[NOW - 90 * DAY, NOW + waits], every);
            assert_eq!(planned, (None, vec![]), "{waits}");
        }
    }
    assert_eq!(planned(&[NOW], Duration::ZERO), (Some(360), vec![]));
}

#[test]
fn key_is_retired_after_everything_it_made_has_expired() {
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
fn rotation_keeps_exactly_the_keys_that_a_gateway_honours() {
    let first_uses = [NOW - 9 * DAY, NOW - HONOURED, NOW - HONOURED + 1, NOW + 100];
    let secret: Vec<u8> = (0..32).collect();
    let keys = first_uses.iter().enumerate().map(|(place, first_use)| {
        SealingKey::new(&secret, &place.to_string(), time(*first_use)).unwrap()
    });
    let key_set = KeySet::new(keys.collect()).unwrap();
    let now = at(NOW.unsigned_abs());
    let overlap = overlap(TIMES.lifetime, TIMES.max_age);
    let honoured: Vec<_> = key_set.honoured(now, overlap).map(Key::kid).collect();
    assert_eq!(honoured, ["1", "2", "3"]);
    assert_eq!(planned(&first_uses, MONTH), (None, vec![0]));
}

/// Keys with these times of first use and of writing, in seconds after `NOW`.
fn file_times(files: &[(i64, i64)]) -> Vec<FileTimes> {
    let files = files.iter().map(|(first_use, written)| FileTimes {
        first_use: time(NOW + first_use),
        written: time(NOW + written),
    });
    files.collect()
}

/// The states of such keys.
fn states(files: &[(i64, i64)], now: i64) -> Vec<KeyState> {
    key_states(&file_times(files), TIMES, time(NOW + now))
}

/// The keys that are retired, of those with these times of first use and of writing.
fn retired(files: &[(i64, i64)], now: i64) -> Vec<usize> {
    plan(&file_times(files), TIMES, MONTH, time(NOW + now)).retired
}

/// Its file was made elsewhere, and came two days later.
#[test]
fn predecessor_of_a_key_that_came_late_is_kept_until_what_it_made_has_expired() {
    let files = [(-9 * DAY, -9 * DAY), (-2 * DAY, 0)];
    for (now, expected) in [(0, vec![]), (HONOURED - 1, vec![]), (HONOURED, vec![0])] {
        assert_eq!(retired(&files, now), expected, "{now}");
    }
    let end = time(NOW + HONOURED);
    assert_eq!(
        states(&files, HONOURED - 1)[0],
        KeyState::HonouredUntil(end)
    );
    assert_eq!(states(&files, HONOURED)[0], KeyState::RetiredSince(end));
}

#[test]
fn keys_are_retired_by_their_first_use_in_a_folder_whose_files_were_just_copied() {
    for copied in [[0, 0, 0], [2, 1, 0], [0, 60, 60]] {
        let first_uses = [-9 * DAY, -2 * DAY, -10];
        let files: Vec<_> = first_uses.into_iter().zip(copied).collect();
        assert_eq!(retired(&files, 60), [0], "{copied:?}");
    }
}

#[test]
fn every_key_has_one_state() {
    use KeyState::{HonouredUntil, InUse, RetiredSince, Waiting};
    let files = [-9 * DAY, -8 * DAY, -1000, 400, 500].map(|first_use| (first_use, first_use - 400));
    let waiting = |from, latest| Waiting {
        from: time(NOW + from),
        latest: time(NOW + latest),
    };
    assert_eq!(
        states(&files, 0),
        [
            RetiredSince(time(NOW - 8 * DAY + HONOURED)),
            HonouredUntil(time(NOW - 1000 + HONOURED)),
            InUse,
            waiting(400, 400 + 360),
            waiting(500, 500 + 360),
        ]
    );
    // Before any first use, the earliest.
    assert_eq!(states(&[(10, 10), (900, 10)], 10)[0], InUse);
    assert!(states(&[], 0).is_empty());
}

#[test]
fn new_key_is_in_use_only_once_every_gateway_may_sign_with_it() {
    use KeyState::{HonouredUntil, InUse, InUseUntil, Starting, Waiting};
    let files = [(-9 * DAY, -9 * DAY), (0, 0)];
    let (from, latest) = (time(NOW + 360), time(NOW + 420));
    for (now, expected) in [
        (0, [InUse, Waiting { from, latest }]),
        (359, [InUse, Waiting { from, latest }]),
        (360, [InUseUntil(latest), Starting { latest }]),
        (419, [InUseUntil(latest), Starting { latest }]),
        (420, [HonouredUntil(time(NOW + HONOURED)), InUse]),
    ] {
        assert_eq!(states(&files, now), expected, "{now}");
    }
}

#[test]
fn key_written_after_its_first_use_is_in_use_once_running_gateways_have_waited() {
    let files = [(-9 * DAY, -9 * DAY), (-DAY, 0)];
    let latest = time(NOW + 420);
    assert_eq!(states(&files, 419)[1], KeyState::Starting { latest });
    assert_eq!(states(&files, 420)[1], KeyState::InUse);
}

/// Running gateways find the file up to a minute after it was written; others start at any time.
#[test]
fn every_gateway_starts_to_use_a_key_within_the_predicted_span() {
    let at = |seconds: i64| at(seconds.unsigned_abs());
    let key = |kid: &str, first_use: i64| {
        let secret: Vec<u8> = (0..32).map(|byte| byte ^ kid.as_bytes()[0]).collect();
        SealingKey::new(&secret, kid, time(first_use)).unwrap()
    };
    let keys = |first_use| vec![key("a", NOW - 9 * DAY), key("b", first_use)];
    let mut seen_spans = 0;
    for first_use in [-500, -60, -1, 0, 1, 200, 299, 300, 301, 360, 1000] {
        let file = FileTimes {
            first_use: time(NOW + first_use),
            written: time(NOW),
        };
        let (from, latest) = file.begins(TIMES.max_age);
        let mut key_sets = Vec::new();
        for found in [0, 5, 60] {
            let before = KeySet::found(vec![key("a", NOW - 9 * DAY)], at(NOW), TIMES.max_age);
            let keys = keys(NOW + first_use);
            let now = at(NOW + found);
            let key_set = KeySet::succeeding(&before.unwrap(), keys, now, TIMES.max_age);
            key_sets.push((found, key_set.unwrap()));
        }
        for start in (0..1100).step_by(50) {
            let keys = keys(NOW + first_use);
            key_sets.push((
                start,
                KeySet::found(keys, at(NOW + start), TIMES.max_age).unwrap(),
            ));
        }
        let mut begun = Vec::new();
        for (exists_since, key_set) in key_sets {
            let uses = |second: i64| key_set.current(at(NOW + second)).kid() == "b";
            // A gateway that starts later uses it from its start on.
            let first = (exists_since..2000).find(|second| uses(*second)).unwrap();
            assert!(first <= latest.as_second() - NOW || first == exists_since);
            assert!(first >= from.as_second() - NOW, "{first_use}: {first}");
            begun.push(first);
        }
        let earliest = begun.iter().min().unwrap();
        let expected = (from.as_second() - NOW).max(0);
        assert_eq!(*earliest, expected, "the earliest time occurs: {first_use}");
        seen_spans += usize::from(begun.contains(&(latest.as_second() - NOW)));
    }
    assert!(seen_spans > 5, "the latest time occurs: {seen_spans}");
}
