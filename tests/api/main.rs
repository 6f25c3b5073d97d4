//! The gateway as its clients see it.

// The attribute tells clippy that what helps the tests is test code as well.
#[cfg(test)]
mod app;
#[cfg(test)]
mod backchannel_logout;
#[cfg(test)]
mod catching_up;
#[cfg(test)]
mod client;
#[cfg(test)]
mod cold_start;
mod contract;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod limits;
#[cfg(test)]
#[path = "../live/logout_inbox.rs"]
mod logout_inbox;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod mock_control;
#[cfg(test)]
mod mock_iam;
#[cfg(test)]
mod mock_namespaces;
#[cfg(test)]
mod mock_world;
#[cfg(test)]
mod model;
#[cfg(test)]
mod namespace;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the adapter need more of it")]
#[path = "../../iam-adapters/tests/it/scripted_upstream.rs"]
mod scripted_upstream;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod token_kinds;
#[cfg(test)]
#[path = "../process/wire.rs"]
mod wire;
