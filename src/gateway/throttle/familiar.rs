//! From where an account was logged in to before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::nanoseconds;

/// Whoever logs in once a month finds their place kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// What half of the memory holds: seven eighths of 2^18 places of 17 bytes each, 4.3 MiB.
const ROOM: usize = 7 * 32 * 1024;

/// Accounts and addresses that go together, as hashes of the two. When half of the memory is full,
/// the older half is forgotten: that costs somebody a privilege, and opens nothing.
#[derive(Debug, Default)]
pub(super) struct Familiar(Mutex<Halves>);

#[derive(Debug, Default)]
struct Halves {
    /// When each pair was last seen.
    newer: HashMap<u64, u64>,
    older: HashMap<u64, u64>,
}

impl Familiar {
    /// Whether the pair is remembered.
    pub(super) fn contains(&self, pair: u64, now: u64) -> bool {
        let halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen_at = halves.newer.get(&pair).or_else(|| halves.older.get(&pair));
        seen_at.is_some_and(|at| now.saturating_sub(*at) < nanoseconds(KEPT))
    }

    /// Remembers a pair that logged in.
    pub(super) fn remember(&self, pair: u64, now: u64) {
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.newer.len() >= ROOM && !halves.newer.contains_key(&pair) {
            halves.older = std::mem::take(&mut halves.newer);
        }
        halves.newer.insert(pair, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_kept_for_its_time_counted_from_the_last_login() {
        let (familiar, kept) = (Familiar::default(), nanoseconds(KEPT));
        assert!(!familiar.contains(1, 0));
        familiar.remember(1, 0);
        familiar.remember(1, 10);
        assert!(familiar.contains(1, kept + 9));
        assert!(!familiar.contains(1, kept + 10));
        assert!(!familiar.contains(2, 0));
    }

    #[test]
    fn however_many_pairs_there_are_the_latest_are_kept_and_the_memory_is_bounded() {
        let familiar = Familiar::default();
        let latest = 3 * ROOM as u64;
        for pair in 0..latest {
            familiar.remember(pair, pair);
        }
        let first_kept = latest - ROOM as u64;
        assert!((first_kept..latest).all(|pair| familiar.contains(pair, latest)));
        assert!(!familiar.contains(0, latest));
        let halves = familiar.0.into_inner().unwrap();
        assert!(halves.newer.len() <= ROOM && halves.older.len() <= ROOM);
    }
}
