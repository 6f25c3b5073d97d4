//! The gateway as clients see it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

// The attribute tells clippy that the helpers of tests are test code.
#[cfg(test)]
mod api_suite;
#[cfg(test)]
mod backchannel_logout;
#[cfg(test)]
mod catching_up;
#[cfg(test)]
mod cold_start;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod mock_control;
#[cfg(test)]
mod mock_iam;
#[cfg(test)]
mod mock_namespaces;
#[cfg(test)]
mod model;
#[cfg(test)]
mod namespace;
#[cfg(test)]
mod token_kinds;
