//! Tests of the development program: streams, signals, exit codes.

// Tells clippy that the helpers of tests are test code.
#![cfg(test)]
mod activation;
mod audit;
mod check;
mod contents;
mod development;
mod log;
mod mock_control;
mod mock_iam;
mod reload;
mod report;
mod revoke;
mod secrecy;
mod stopping;
mod tls;
mod users_file;

/// The gateway.
const GATEWAY: test_support::program::Executable = test_support::program::Executable {
    path: env!("CARGO_BIN_EXE_auth-gateway-dev"),
};
