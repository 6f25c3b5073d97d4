//! Randomness as an argument, so that a test can take it away.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;

use super::error::Internal;

/// Where identifiers and nonces come from.
pub trait Random: fmt::Debug + Send + Sync {
    /// Fills all of it with bytes that nobody can guess.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] where the machine gives none.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal>;
}

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
        aws_lc_rs::rand::SecureRandom::fill(self, bytes).map_err(|_| Internal::Random)
    }
}
