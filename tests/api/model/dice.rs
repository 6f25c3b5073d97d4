//! Randomness that can be had again.

/// `SplitMix64`, thrown by a seed.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.throw() % end
    }

    /// Any byte: whoever uses it takes what is left of it after division.
    pub(super) fn byte(&mut self) -> u8 {
        self.throw().to_le_bytes()[0]
    }

    /// One of them.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let end = u64::try_from(all.len()).expect("no machine is so large");
        all[usize::try_from(self.below(end)).expect("below a usize")]
    }

    /// True once in so many throws.
    pub(super) fn once_in(&mut self, throws: u64) -> bool {
        self.below(throws) == 0
    }

    /// One of them, each as often as its weight says.
    pub(super) fn weighted<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
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
