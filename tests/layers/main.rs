//! The dependencies between modules and crates.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
mod dependencies;
