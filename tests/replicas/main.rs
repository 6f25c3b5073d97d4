//! Several gateways with a real Redis. Without `redis-server` on the machine, the tests print that
//! they did not run; with CI=true they fail.

#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

// The attribute tells clippy that the helpers of tests are test code.
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod forgery;
#[cfg(test)]
mod joining;
#[cfg(test)]
mod logout;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod refusing;
#[cfg(test)]
mod secrecy;
#[cfg(test)]
mod server;
#[cfg(test)]
mod starting;
#[cfg(test)]
mod tls;

/// The gateway.
#[cfg(test)]
const GATEWAY: test_support::program::Executable = test_support::program::Executable {
    path: env!("CARGO_BIN_EXE_auth-gateway-dev"),
};
