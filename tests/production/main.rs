//! The production program: what it contains, and its commands and errors without an IAM.

// Tells clippy that the helpers of tests are test code.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

mod contents;
mod keys;
mod reference;
mod refusals;
mod rotate;
mod secrets;
mod tools;
mod version;

/// The gateway.
const GATEWAY: test_support::program::Executable = test_support::program::Executable {
    path: env!("CARGO_BIN_EXE_auth-gateway"),
};

/// An IAM that cannot be reached, which is enough to start.
const KEYCLOAK: [(&str, &str); 5] =
    test_support::gateway::scripted_keycloak_settings("http://127.0.0.1:9");
