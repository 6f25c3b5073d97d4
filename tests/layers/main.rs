//! The dependencies between modules and crates.

// Tells clippy that the helpers of tests are test code.
#![cfg(test)]
mod dependencies;
