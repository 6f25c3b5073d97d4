//! The tokens that were acted on, until none of them could be accepted any more.

use std::collections::HashSet;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use super::claims::{AGE_MAX, SKEW_MAX};
use crate::clock::Moment;

/// The id of a token (`jti`), in a size that no IAM chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenId([u8; SHA256_OUTPUT_LEN]);

impl TokenId {
    pub(super) fn of(jti: &str) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, jti.as_bytes()).as_ref());
        Self(bytes)
    }
}

/// From the earliest moment at which a token is accepted to the last: one that comes from a clock
/// that is ahead has the longest time.
const WINDOW: Duration = AGE_MAX.saturating_add(SKEW_MAX);

/// How many tokens are remembered for each window. Only tokens that the IAM signed are, so it
/// takes 180 logouts a second to fill. Beyond it no more are remembered, and a replay of those
/// would be accepted: it says what the first said, and ends nothing that was begun since.
const CAPACITY: usize = 32 * 1024;

/// Two windows of tokens: a token leaves with its window, a whole window after the last of it.
#[derive(Debug, Default)]
pub(super) struct Taken {
    began: Option<Moment>,
    now: HashSet<TokenId>,
    before: HashSet<TokenId>,
}

impl Taken {
    pub(super) fn knows(&self, id: &TokenId, now: Moment) -> bool {
        let age = self.began.map_or(Duration::MAX, |began| now.since(began));
        age < 2 * WINDOW && (self.now.contains(id) || self.before.contains(id))
    }

    pub(super) fn note(&mut self, id: TokenId, now: Moment) {
        let age = self.began.map_or(Duration::MAX, |began| now.since(began));
        if age >= WINDOW {
            self.before = std::mem::take(&mut self.now);
            self.began = Some(now);
        }
        if age >= 2 * WINDOW {
            self.before.clear();
        }
        if self.now.len() < CAPACITY {
            self.now.insert(id);
        }
    }
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
    fn a_token_is_remembered_for_as_long_as_it_could_be_accepted() {
        let window = WINDOW.as_secs();
        for noted in [0, 1, window / 2, window - 1] {
            let mut taken = Taken::default();
            taken.note(TokenId::of("first of all"), at(0));
            taken.note(TokenId::of("one"), at(noted));
            for later in [0, 1, window - 1] {
                // Others come and go meanwhile.
                taken.note(TokenId::of(&format!("{later}")), at(noted + later));
                assert!(
                    taken.knows(&TokenId::of("one"), at(noted + later)),
                    "{noted} {later}"
                );
            }
            assert!(!taken.knows(&TokenId::of("another"), at(noted)));
        }
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut taken = Taken::default();
        for number in 0..2 * CAPACITY {
            taken.note(TokenId::of(&number.to_string()), at(0));
        }
        assert_eq!(taken.now.len(), CAPACITY);
        taken.note(TokenId::of("later"), at(3 * WINDOW.as_secs()));
        assert_eq!((taken.now.len(), taken.before.len()), (1, 0));
    }
}
