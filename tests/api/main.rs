//! The gateway as clients see it.

// Tells clippy that the helpers of tests are test code.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

mod api_suite;
mod audit;
mod backchannel_logout;
mod catching_up;
mod edge;
mod failures;
mod keys;
mod limits;
mod metrics;
mod mock_control;
mod mock_iam;
mod mock_namespaces;
mod model;
mod namespace;
mod operator_revocations;
mod several_iams;
mod status_page;
mod token_kinds;
mod traces;
