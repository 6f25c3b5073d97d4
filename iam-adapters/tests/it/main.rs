//! Tests of the adapters against scripted servers.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
mod client;
#[cfg(test)]
mod keycloak;
