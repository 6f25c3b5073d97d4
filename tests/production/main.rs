//! The production program: what it contains, and its commands and errors without an IAM.

#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

// The attribute tells clippy that the helpers of tests are test code.
#[cfg(test)]
mod contents;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod rotate;
#[cfg(test)]
mod secrets;

/// The gateway.
#[cfg(test)]
const GATEWAY: test_support::program::Executable = test_support::program::Executable {
    path: env!("CARGO_BIN_EXE_auth-gateway"),
};

/// An IAM that cannot be reached, which is enough to start.
#[cfg(test)]
const KEYCLOAK: [(&str, &str); 5] =
    test_support::gateway::scripted_keycloak_settings("http://127.0.0.1:9");
