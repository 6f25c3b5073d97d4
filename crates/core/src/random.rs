//! Randomness.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;

use crate::error::Internal;

/// The source of identifiers and nonces; an argument, so that a test can make it fail.
pub trait Random: fmt::Debug + Send + Sync {
    /// Fills `bytes` with cryptographically secure random numbers.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] if the system has none.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal>;
}

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
        aws_lc_rs::rand::SecureRandom::fill(self, bytes).map_err(|_| Internal::Random)
    }
}
