//! The dependencies between modules and crates.

// The attribute tells clippy that the helpers of tests are test code.
#[cfg(test)]
mod dependencies;
