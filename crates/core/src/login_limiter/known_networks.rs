//! The networks from which each account has logged in.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::nanoseconds;

/// The network of a user who logs in once a month stays known.
pub(super) const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// A pair is shared with the other replicas at its first login in each week, so that the number of
/// shared events does not grow with each login.
const SHARING_INTERVAL: Duration = Duration::from_secs(7 * 24 * 3600);

/// The capacity of one generation: seven eighths of 2^18 slots of 17 bytes each, 4.3 MiB.
const CAPACITY: usize = 7 * 32 * 1024;

/// Pairs of an account and a network with a successful login, as hashes of the two. When the newer
/// generation is full, the older generation is removed: those users lose a privilege, and no attacker gains one.
#[derive(Debug, Default)]
pub(super) struct KnownNetworks(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    /// When each pair last logged in.
    newer: HashMap<u64, u64>,
    older: HashMap<u64, u64>,
}

impl Generations {
    fn logged_in_at(&self, pair: u64) -> Option<u64> {
        let newer = self.newer.get(&pair);
        newer.or_else(|| self.older.get(&pair)).copied()
    }
}

impl KnownNetworks {
    /// Whether the pair has logged in within the retention.
    pub(super) fn contains(&self, pair: u64, now: u64) -> bool {
        let generations = self.0.lock();
        let logged_in_at = generations.logged_in_at(pair);
        logged_in_at.is_some_and(|at| now.saturating_sub(at) < nanoseconds(RETENTION))
    }

    /// Records a login, which may be older than others. Returns whether the other replicas must
    /// receive it.
    pub(super) fn insert(&self, pair: u64, at: u64) -> bool {
        let mut generations = self.0.lock();
        let known = generations.logged_in_at(pair);
        if known.is_some_and(|known| known >= at) {
            return false;
        }
        if generations.newer.len() >= CAPACITY && !generations.newer.contains_key(&pair) {
            generations.older = std::mem::take(&mut generations.newer);
        }
        generations.newer.insert(pair, at);
        let week = |at| at / nanoseconds(SHARING_INTERVAL);
        known.is_none_or(|known| week(known) < week(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_is_known_for_thirty_days_after_its_last_login() {
        let (known, kept) = (KnownNetworks::default(), nanoseconds(RETENTION));
        assert!(!known.contains(1, 0));
        known.insert(1, 0);
        known.insert(1, 10);
        assert!(known.contains(1, kept + 9));
        assert!(!known.contains(1, kept + 10));
        assert!(!known.contains(2, 0));
    }

    #[test]
    fn pair_is_shared_when_it_is_new_and_then_once_a_week() {
        let (known, week) = (KnownNetworks::default(), nanoseconds(SHARING_INTERVAL));
        assert!(known.insert(1, 2 * week));
        let shared = (1..=2_800).filter(|step| known.insert(1, 2 * week + step * week / 100));
        assert_eq!(shared.count(), 28);
        // An older login of another replica changes nothing.
        assert!(!known.insert(1, 0));
        assert!(known.contains(1, 30 * week));
    }

    #[test]
    fn latest_pairs_are_kept_and_the_memory_is_bounded() {
        let known = KnownNetworks::default();
        let latest = 3 * CAPACITY as u64;
        for pair in 0..latest {
            known.insert(pair, pair);
        }
        let first_kept = latest - CAPACITY as u64;
        assert!((first_kept..latest).all(|pair| known.contains(pair, latest)));
        assert!(!known.contains(0, latest));
        let generations = known.0.into_inner();
        assert!(generations.newer.len() <= CAPACITY && generations.older.len() <= CAPACITY);
    }
}
