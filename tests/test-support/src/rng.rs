//! Reproducible pseudo-random numbers.

use std::env;

/// A `SplitMix64` generator: the same seed gives the same numbers.
#[derive(Debug)]
pub struct Rng {
    seed: u64,
    state: u64,
}

impl Rng {
    /// A generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// A generator with the seed in this environment variable, or with a random seed.
    pub fn from_env(variable: &str) -> Self {
        let seed = env::var(variable).ok();
        let seed = seed.map(|seed| seed.parse().expect("a seed is a number"));
        Self::new(seed.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            aws_lc_rs::rand::fill(&mut bytes).expect("randomness");
            u64::from_be_bytes(bytes)
        }))
    }

    /// The seed, for messages.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An index below `end`.
    pub fn index(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a usize has at most 64 bits");
        usize::try_from(self.below(end)).expect("below a usize")
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// One of the items.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// True with a probability of one in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the items, with a probability in proportion to its weight.
    pub fn weighted<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
        let mut left = self.below(all.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in all {
            if left < *weight {
                return *one;
            }
            left -= weight;
        }
        unreachable!("what is left is below the sum")
    }
}
