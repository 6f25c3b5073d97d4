//! A key is not used before verifiers can have fetched it, unless there is no other.

use super::*;

const NOW: u64 = 1_800_000_000;
const MAX_AGE: Duration = Duration::from_secs(300);
const LEAD: u64 = 360;

fn sealing(kid: &str, first_use: u64) -> SealingKey {
    let mut secret: Vec<u8> = (0..32).collect();
    secret[0] = kid.as_bytes()[0];
    let first_use = time(i64::try_from(first_use).unwrap());
    SealingKey::new(&secret, kid, first_use).unwrap()
}

fn keys(keys: &[(&str, u64)]) -> Vec<SealingKey> {
    keys.iter()
        .map(|(kid, first_use)| sealing(kid, *first_use))
        .collect()
}

fn found(named: &[(&str, u64)], now: u64) -> KeySet<SealingKey> {
    KeySet::found(keys(named), at(now), MAX_AGE).unwrap()
}

impl KeySet<SealingKey> {
    /// The key set of a replica that finds these keys now.
    fn then(&self, named: &[(&str, u64)], now: u64) -> Self {
        Self::succeeding(self, keys(named), at(now), MAX_AGE).unwrap()
    }

    fn in_use(&self, now: u64) -> &str {
        self.current(at(now)).kid()
    }
}

#[test]
fn key_announced_in_time_is_used_from_its_first_use_on() {
    let key_set = found(&[("a", NOW - 1_000_000)], NOW);
    for late in [0, 5, 60] {
        let first_use = NOW + LEAD;
        let key_set = key_set.then(&[("a", NOW - 1_000_000), ("b", first_use)], NOW + late);
        assert_eq!(key_set.in_use(first_use - 1), "a");
        assert_eq!(key_set.in_use(first_use), "b");
        assert_eq!(key_set.delayed(at(NOW)).count(), 0);
    }
}

#[test]
fn use_of_a_key_that_verifiers_cannot_have_fetched_is_delayed() {
    let old = ("a", NOW - 1_000_000);
    let key_set = found(&[old], NOW);
    for first_use in [NOW - 500_000, NOW - 1, NOW, NOW + 1, NOW + 299] {
        let key_set = key_set.then(&[old, ("b", first_use)], NOW);
        assert_eq!(key_set.in_use(NOW + LEAD - 1), "a", "{first_use}");
        assert_eq!(key_set.in_use(NOW + LEAD), "b", "{first_use}");
        assert_eq!(key_set.count(), 2, "published meanwhile");
        let delayed: Vec<_> = key_set.delayed(at(NOW)).map(|(key, _)| key.kid()).collect();
        assert_eq!(delayed, ["b"]);
        assert_eq!(key_set.delayed(at(NOW + LEAD)).count(), 0);
    }
}

#[test]
fn changes_of_the_folder_do_not_shorten_the_delay_of_a_key() {
    let old = ("a", NOW - 1_000_000);
    let mut key_set = found(&[old], NOW).then(&[old, ("b", NOW)], NOW);
    for later in 1..LEAD {
        key_set = key_set.then(&[old, ("b", NOW), ("c", NOW + 50_000 + later)], NOW + later);
        assert_eq!(key_set.in_use(NOW + later), "a");
    }
    assert_eq!(key_set.in_use(NOW + LEAD), "b");
}

/// The file does not show when other replicas found it: it may be new.
#[test]
fn replica_that_starts_uses_the_old_key_until_verifiers_can_have_fetched_the_new_one() {
    let old = ("a", NOW - 1_000_000);
    let key_set = found(&[old, ("b", NOW)], NOW + 1);
    assert_eq!(key_set.in_use(NOW + 1), "a");
    assert_eq!(
        key_set.in_use(NOW + LEAD),
        "b",
        "as a replica that was running"
    );
    let key_set = found(&[old, ("b", NOW)], NOW + LEAD);
    assert_eq!(key_set.in_use(NOW + LEAD), "b");
    // While it waits, at most a lead longer.
    let key_set = found(&[old, ("b", NOW + 100)], NOW);
    assert_eq!(key_set.in_use(NOW + 100), "a");
    assert_eq!(key_set.in_use(NOW + LEAD), "b");
    let key_set = found(&[old, ("b", NOW + 300)], NOW);
    assert_eq!(key_set.in_use(NOW + 299), "a");
    assert_eq!(key_set.in_use(NOW + 300), "b");
}

#[test]
fn only_key_is_used_at_once() {
    for first_use in [NOW - 500_000, NOW, NOW + 500_000] {
        assert_eq!(found(&[("a", first_use)], NOW).in_use(NOW), "a");
        let before = found(&[("z", NOW - 1_000_000)], NOW);
        let replaced = before.then(&[("a", first_use)], NOW);
        assert_eq!(replaced.in_use(NOW), "a", "{first_use}");
    }
}

#[test]
fn next_key_is_used_at_once_if_the_key_in_use_is_removed() {
    let (older, old) = (("a", NOW - 2_000_000), ("b", NOW - 1_000_000));
    for first_use in [NOW, NOW + 10_000] {
        let new = ("c", first_use);
        let key_set = found(&[older, old], NOW).then(&[older, old, new], NOW);
        assert_eq!(key_set.in_use(NOW + 1), "b");
        let key_set = key_set.then(&[older, new], NOW + 1);
        assert_eq!(key_set.in_use(NOW + 1), "c", "not the retired one");
        let key_set = key_set.then(&[older, new, ("d", NOW + 1_000_000)], NOW + 2);
        assert_eq!(key_set.in_use(NOW + 2), "c", "and stays in use");
    }
    let key_set = found(&[older, old], NOW).then(&[older], NOW);
    assert_eq!(key_set.in_use(NOW), "a", "there is no other");
}

#[test]
fn restored_old_key_is_not_used_again() {
    let (old, new) = (("a", NOW - 2_000_000), ("b", NOW - 1_000_000));
    let key_set = found(&[new], NOW).then(&[old, new], NOW);
    for later in [0, LEAD, 1_000_000] {
        assert_eq!(key_set.in_use(NOW + later), "b");
    }
}

#[test]
fn postponed_first_use_is_followed() {
    let old = ("a", NOW - 1_000_000);
    let key_set = found(&[old], NOW).then(&[old, ("b", NOW + LEAD)], NOW);
    let key_set = key_set.then(&[old, ("b", NOW + 5_000)], NOW + 10);
    assert_eq!(key_set.in_use(NOW + 4_999), "a");
    assert_eq!(key_set.in_use(NOW + 5_000), "b");
    let key_set = key_set.then(&[old, ("b", NOW + 20)], NOW + 11);
    assert_eq!(
        key_set.in_use(NOW + LEAD - 1),
        "a",
        "found at the first time"
    );
    assert_eq!(key_set.in_use(NOW + LEAD), "b");
}

#[test]
fn key_is_honoured_for_the_overlap_after_the_actual_start_of_its_successor() {
    let old = ("a", NOW - 1_000_000);
    let key_set = found(&[old], NOW).then(&[old, ("b", NOW - 500_000)], NOW);
    let overlap = Duration::from_secs(50);
    assert_eq!(key_set.honoured(at(NOW + LEAD + 49), overlap).count(), 2);
    assert_eq!(key_set.honoured(at(NOW + LEAD + 50), overlap).count(), 1);
}

#[test]
fn another_key_with_a_known_id_is_refused() {
    let before = found(&[("a", NOW)], NOW);
    let other = SealingKey::new(&(1..33).collect::<Vec<u8>>(), "a", time(0)).unwrap();
    let refused = KeySet::succeeding(&before, vec![other], at(NOW), MAX_AGE);
    assert!(matches!(refused, Err(KeyError::Changed(kid)) if kid == "a"));
    let signing = |first_use| {
        let mut jwk = generated(KeyPurpose::Signing(Algorithm::EdDsa));
        jwk["kid"] = json!("a");
        jwk["first_use"] = json!(time(first_use).to_string());
        jwk
    };
    let key = |jwk: &Value| vec![SigningKey::from_file(&parsed(jwk).unwrap()).unwrap()];
    let (one, other) = (signing(1), signing(1));
    let before = KeySet::new(key(&one)).unwrap();
    assert!(KeySet::succeeding(&before, key(&one), at(NOW), MAX_AGE).is_ok());
    let refused = KeySet::succeeding(&before, key(&other), at(NOW), MAX_AGE);
    assert!(matches!(refused, Err(KeyError::Changed(kid)) if kid == "a"));
}
