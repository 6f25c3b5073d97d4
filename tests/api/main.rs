//! The gateway as its clients see it.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
mod app;
#[cfg(test)]
mod client;
mod contract;
#[cfg(test)]
mod mock_world;
#[cfg(test)]
mod suite;
