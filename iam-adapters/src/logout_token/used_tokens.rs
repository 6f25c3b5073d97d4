//! The replay cache: ids of used tokens, kept until the tokens can no longer be accepted.

use std::collections::HashSet;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use super::claims::{AGE_MAX, SKEW_MAX};
use crate::clock::Moment;

/// The hash of a token's `jti`, so that the IAM does not determine the size of an entry.
type JtiHash = [u8; SHA256_OUTPUT_LEN];

/// The longest time in which a token is accepted: that of a token from a clock that is ahead.
const WINDOW: Duration = AGE_MAX.saturating_add(SKEW_MAX);

/// The maximum number of entries per window. Only tokens that the IAM signed are recorded, so it takes
/// more than 180 logouts per second to reach it. Further tokens are not recorded. A replay of such a token ends
/// only sessions that the token has already ended.
const CAPACITY: usize = 32 * 1024;

/// The used tokens of the current window and of the previous one. An entry is removed at least one
/// window after it was inserted.
#[derive(Debug, Default)]
pub(super) struct UsedTokens {
    window_started: Option<Moment>,
    current: HashSet<JtiHash>,
    previous: HashSet<JtiHash>,
}

impl UsedTokens {
    pub(super) fn contains(&self, jti: &str, now: Moment) -> bool {
        let hash = hash(jti);
        self.age(now) < 2 * WINDOW
            && (self.current.contains(&hash) || self.previous.contains(&hash))
    }

    pub(super) fn insert(&mut self, jti: &str, now: Moment) {
        let age = self.age(now);
        if age >= WINDOW {
            self.previous = std::mem::take(&mut self.current);
            self.window_started = Some(now);
        }
        if age >= 2 * WINDOW {
            self.previous.clear();
        }
        if self.current.len() < CAPACITY {
            self.current.insert(hash(jti));
        }
    }

    fn age(&self, now: Moment) -> Duration {
        self.window_started
            .map_or(Duration::MAX, |started| now.since(started))
    }
}

fn hash(jti: &str) -> JtiHash {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, jti.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment {
            unix: Duration::from_secs(1_800_000_000 + seconds),
            monotonic: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn used_token_is_kept_as_long_as_it_could_be_accepted() {
        let window = WINDOW.as_secs();
        for used in [0, 1, window / 2, window - 1] {
            let mut tokens = UsedTokens::default();
            tokens.insert("first", at(0));
            tokens.insert("one", at(used));
            for later in [0, 1, window - 1] {
                tokens.insert(&format!("{later}"), at(used + later));
                assert!(tokens.contains("one", at(used + later)), "{used} {later}");
            }
            assert!(!tokens.contains("another", at(used)));
        }
    }

    #[test]
    fn every_token_of_180_logouts_per_second_is_kept() {
        let mut tokens = UsedTokens::default();
        let last = 180 * WINDOW.as_secs() - 1;
        for number in 0..=last {
            tokens.insert(&number.to_string(), at(number / 180));
        }
        assert!(tokens.contains(&last.to_string(), at(last / 180)));
    }

    #[test]
    fn memory_is_bounded_and_released() {
        let mut tokens = UsedTokens::default();
        for number in 0..2 * CAPACITY {
            tokens.insert(&number.to_string(), at(0));
        }
        assert_eq!(tokens.current.len(), CAPACITY);
        tokens.insert("later", at(3 * WINDOW.as_secs()));
        assert_eq!((tokens.current.len(), tokens.previous.len()), (1, 0));
    }
}
