//! The adapters from outside, in one binary.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
mod client;
#[cfg(test)]
mod keycloak;
