use aws_lc_rs::digest::SHA256_OUTPUT_LEN;
use proptest::prelude::*;

use super::super::{CachedUser, Caches, Freshness, SessionKey};
use super::*;
use crate::session_id::SessionId;

const FRESHNESS: Freshness = Freshness {
    liveness: LIFETIME,
    permissions: LIFETIME,
    stale_if_error: Duration::ZERO,
};

const LIFETIME: Duration = Duration::from_secs(30);

/// When the IAM was called, by true time.
const REQUESTED: Duration = Duration::from_secs(1_800_000_000);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn statement(requested_at: Duration) -> EntryContent {
    EntryContent {
        requested_at,
        lifetime: LIFETIME,
        user: UserData::default(),
    }
}

/// The age that a replica concludes, if its clock is ahead of that of the writer by `ahead`.
fn age(true_age: Duration, ahead: i64, remaining: Duration) -> Option<Duration> {
    let wall = i64::try_from((REQUESTED + true_age).as_millis()).unwrap() + ahead;
    let now = Moment {
        unix: millis(wall.try_into().unwrap()),
        monotonic: Duration::from_secs(1_000_000),
    };
    let requested_at = statement(REQUESTED).requested_at(remaining, now)?;
    let age = now.monotonic.saturating_sub(requested_at.monotonic);
    assert_eq!(now.unix.saturating_sub(requested_at.unix), age);
    Some(age)
}

proptest! {
    #[test]
    fn age_is_never_too_small_while_the_clocks_differ_by_at_most_the_allowed_difference(
        true_age in (0..100_000_u64).prop_map(millis),
        ahead in -1_000..=1_000_i64,
        remaining in (0..200_000_u64).prop_map(millis),
    ) {
        prop_assert!(age(true_age, ahead, remaining).unwrap() >= true_age);
    }

    #[test]
    fn age_is_never_too_small_while_the_store_is_correct(
        true_age in (0..30_000_u64).prop_map(millis),
        ahead in -200_000..=200_000_i64,
    ) {
        let age = age(true_age, ahead, LIFETIME.saturating_sub(true_age));
        prop_assert!(age.is_none_or(|age| age >= true_age));
    }

    /// A store that renews the lifetime gains at most the rest of the difference of the clocks.
    #[test]
    fn age_is_too_small_by_at_most_the_difference_of_the_clocks(
        true_age in (0..100_000_u64).prop_map(millis),
        ahead in -200_000..=200_000_i64,
        remaining in (0..200_000_u64).prop_map(millis),
    ) {
        if let Some(age) = age(true_age, ahead, remaining) {
            let gained = millis(ahead.min(0).unsigned_abs()).saturating_sub(CLOCK_DIFFERENCE);
            prop_assert!(age + gained >= true_age);
        }
    }

    #[test]
    fn correct_store_and_equal_clocks_add_only_the_allowed_difference(true_age in 0..30_000_u64) {
        let true_age = millis(true_age);
        let age = age(true_age, 0, LIFETIME.saturating_sub(true_age));
        prop_assert_eq!(age, Some(true_age + CLOCK_DIFFERENCE));
    }

    #[test]
    fn content_is_read_back(
        requested_at in any::<u64>(),
        lifetime in any::<u64>(),
        names in prop::collection::vec("[!#-\\[\\]-~]{1,20}", 0..20),
        claim in prop::option::of(any::<String>()),
    ) {
        let permissions = names.iter().map(|name| Permission::parse(name).unwrap()).collect();
        let members = claim.map(|claim| format!(",\"claim\":{}", serde_json::json!(claim)));
        let claims = Claims::from_members(&members.unwrap_or_default()).unwrap();
        let user = UserData { permissions, claims };
        let (requested_at, lifetime) = (millis(requested_at), millis(lifetime));
        let content = EntryContent::encode(requested_at, lifetime, &user);
        let expected = EntryContent { requested_at, lifetime, user };
        prop_assert_eq!(EntryContent::decode(&content), Some(expected));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = EntryContent::decode(&bytes);
        let _ = split(&bytes);
        let mut entry = vec![FORMAT];
        entry.extend(bytes);
        let _ = split(&entry);
    }
}

#[test]
fn content_with_names_that_are_no_scopes_is_refused() {
    let start = [0; 16];
    assert!(EntryContent::decode(&start[1..]).is_none());
    assert!(EntryContent::decode(&start).is_some_and(|read| read.user == UserData::default()));
    for names in [" ", "a  b ", "a\tb ", "\" ", "\u{e9} ", "a \n,", "a \n{}"] {
        let content = [&start, names.as_bytes()].concat();
        assert!(EntryContent::decode(&content).is_none(), "{names:?}");
    }
}

/// Times far outside of any clock, as a malformed entry could have.
#[test]
fn extreme_times_make_an_entry_old_or_invalid() {
    let now = Moment {
        unix: REQUESTED,
        monotonic: Duration::from_secs(1),
    };
    let oldest = statement(Duration::ZERO).requested_at(LIFETIME, now);
    assert_eq!(
        oldest,
        Some(Moment {
            unix: Duration::ZERO,
            monotonic: Duration::ZERO
        })
    );
    let future = statement(millis(u64::MAX)).requested_at(Duration::ZERO, now);
    assert_eq!(future, None);
    let endless = statement(REQUESTED).requested_at(Duration::MAX, now);
    assert_eq!(
        endless.map(|at| now.unix.saturating_sub(at.unix)),
        Some(CLOCK_DIFFERENCE)
    );
}

fn key() -> CacheSealingKey {
    let key = DerivationKey::new(b"secret", "k1", jiff::Timestamp::UNIX_EPOCH);
    CacheSealingKey::derive(&key)
}

fn fingerprint(session: u8, subject: u8) -> Fingerprint {
    Fingerprint {
        session: SessionKey {
            id: SessionId::DUMMY,
            content: 0,
        },
        token: [session; SHA256_OUTPUT_LEN],
        subject: [subject; SHA256_OUTPUT_LEN],
    }
}

#[test]
fn additional_data_differs_in_key_session_and_subject() {
    let all = [
        ("k", fingerprint(1, 1)),
        ("l", fingerprint(1, 1)),
        ("k", fingerprint(2, 1)),
        ("k", fingerprint(1, 2)),
        ("", fingerprint(1, 1)),
    ];
    let data = all.map(|(kid, of)| additional_data(kid, &of).as_ref().to_vec());
    for (at, one) in data.iter().enumerate() {
        assert!(data[..at].iter().all(|other| other != one));
    }
}

#[test]
fn entries_of_equal_content_have_different_keys() {
    let key = key();
    let sealed = |salt| seal(&key, "k", [salt; SALT_LEN], &fingerprint(1, 1), vec![0; 64]).unwrap();
    let text = |entry: &[u8]| split(entry).unwrap().text.to_vec();
    assert_ne!(text(&sealed(1)), text(&sealed(2)));
    assert_eq!(text(&sealed(1)), text(&sealed(1)));
}

#[test]
fn longest_entry_is_bounded() {
    let key = key();
    let sealed = |length| {
        let content = vec![0; length];
        seal(&key, "kid", [0; SALT_LEN], &fingerprint(1, 1), content)
    };
    let frame = sealed(0).unwrap().len();
    let longest = sealed(ENTRY_BYTES_MAX - frame).unwrap();
    assert_eq!(longest.len(), ENTRY_BYTES_MAX);
    assert!(split(&longest).is_some());
    assert!(sealed(ENTRY_BYTES_MAX - frame + 1).is_none());
    assert!(split(&[longest, vec![0]].concat()).is_none());
}

#[test]
fn debug_output_of_the_key_contains_no_bytes_of_it() {
    let key = key();
    assert_eq!(format!("{key:?}"), "CacheSealingKey([REDACTED])");
}

/// docs/capacity.md has a row for each user.
#[test]
fn sizes_of_entries_are_those_of_the_documentation() {
    let page = include_str!("../../../../../docs/capacity.md");
    let four = r#","department":"sales","level":7,"staff":true,"teams":["blue","green"]"#;
    // A key id as the service makes it.
    let kid = "k".repeat(43);
    for (count, claims, number) in [(2, "", 0), (2, four, 4), (10, "", 0), (10, four, 4)] {
        let names = (0..count).map(|number| format!("urn:shop:orders:order:{number:04}"));
        let user = UserData {
            permissions: names
                .map(|name| Permission::parse(&name).unwrap())
                .collect(),
            claims: Claims::from_members(claims).unwrap(),
        };
        let content = EntryContent::encode(REQUESTED, LIFETIME, &user);
        let shared = seal(&key(), &kid, [0; SALT_LEN], &fingerprint(1, 1), content);
        let shared = shared.unwrap().len();
        let caches = Caches::new(1024 * 1024, &[FRESHNESS]);
        let held = CachedUser {
            requested_at: Moment {
                unix: REQUESTED,
                monotonic: Duration::ZERO,
            },
            user: Arc::new(user),
        };
        caches.permissions.insert([0; SHA256_OUTPUT_LEN], held);
        let [_, usage] = caches.usage();
        let row = format!("| {count} | {number} | {} | {shared} |", usage.bytes);
        println!("{row}");
        assert!(page.contains(&row), "docs/capacity.md lacks {row}");
    }
}
