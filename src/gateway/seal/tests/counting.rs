//! How much a key has sealed, and when that is too much.

use std::sync::atomic::Ordering;

use iam_adapters::Clock as _;
use iam_adapters::clock::ManualClock;

use super::*;
use crate::gateway::keys::Keys;

#[test]
fn every_seal_is_counted_by_the_key_in_use() {
    let now = i64::try_from(AT.unix_seconds()).unwrap();
    let keys = KeyRing::new(vec![key("old", 1, 0), key("new", 2, now)]).unwrap();
    for _ in 0..3 {
        sealed_with(&keys, &session("secret"));
    }
    let counts: Vec<_> = keys.iter().map(SealingKey::seals).collect();
    assert_eq!(counts, [0, 3]);
}

#[test]
fn the_same_key_read_again_counts_on_and_both_copies_count_together() {
    let before = ring();
    sealed_with(&before, &session("secret"));
    let mut again = key("k1", 1, 0);
    assert!(again.succeed(before.current(AT)));
    // A login that took the ring before it was exchanged seals with the old copy.
    sealed_with(&before, &session("secret"));
    assert_eq!(again.seals(), 2);
    assert!(
        !key("k1", 2, 0).succeed(before.current(AT)),
        "another secret"
    );
}

#[test]
fn a_key_that_sealed_too_much_is_a_concern_until_another_is_used() {
    let clock = ManualClock::at(AT.unix);
    let next = i64::try_from(AT.unix_seconds()).unwrap() + 60;
    let ring = KeyRing::new(vec![key("old", 1, 0), key("new", 2, next)]).unwrap();
    let seals = &ring.current(AT).seals;
    seals.store(SealingKey::SEALS_WORN - 2, Ordering::Relaxed);
    sealed_with(&ring, &session("secret"));
    assert!(!ring.current(AT).is_worn());
    sealed_with(&ring, &session("secret"));
    let keys = Keys {
        sealing: ring.into(),
        ..Keys::ephemeral(AT).unwrap()
    };
    let concerns = keys.concerns(clock.now());
    assert_eq!(concerns.len(), 1, "{concerns:?}");
    assert_eq!(concerns[0].code, "sealing_key_worn");
    assert!(concerns[0].message.contains("old"), "{concerns:?}");
    clock.advance(Duration::from_secs(60));
    assert_eq!(keys.concerns(clock.now()), []);
}
