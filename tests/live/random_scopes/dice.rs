//! Randomness that can be had again.

use std::env;

/// `SplitMix64`, thrown by a seed.
#[derive(Debug)]
pub(super) struct Dice {
    #[expect(dead_code, reason = "it is there to be shown")]
    seed: u64,
    state: u64,
}

/// Sets the seed; without it each run has its own.
const SEED_VARIABLE: &str = "RANDOM_SCOPES_SEED";

impl Default for Dice {
    fn default() -> Self {
        let seed = env::var(SEED_VARIABLE).ok();
        let seed = seed.map(|seed| seed.parse().expect("a seed is a number"));
        let seed = seed.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            aws_lc_rs::rand::fill(&mut bytes).expect("randomness");
            u64::from_be_bytes(bytes)
        });
        Self { seed, state: seed }
    }
}

impl Dice {
    fn throw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("no machine is so large");
        usize::try_from(self.throw() % end).expect("below a usize")
    }

    /// One of them.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Heads or tails.
    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
