//! Tests of the development program: streams, signals, exit codes.

// The attribute tells clippy that the helpers of tests are test code.
#[cfg(test)]
mod check;
#[cfg(test)]
mod contents;
#[cfg(test)]
mod development;
#[cfg(test)]
mod log;
#[cfg(test)]
mod mock_control;
#[cfg(test)]
mod mock_iam;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod report;
#[cfg(test)]
mod secrecy;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod users_file;

/// The gateway.
#[cfg(test)]
const GATEWAY: test_support::program::Executable = test_support::program::Executable {
    path: env!("CARGO_BIN_EXE_auth-gateway-dev"),
};
