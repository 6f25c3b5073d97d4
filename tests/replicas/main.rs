//! Several gateways with a real Redis. Without `redis-server` on the machine, the tests print that
//! they did not run; with CI=true they fail.

// Tells clippy that the helpers of tests are test code.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

mod failover;
mod fixture;
mod forgery;
mod joining;
mod keys;
mod login_limits;
mod logout;
mod lost;
mod metrics;
mod outage;
mod processes;
mod refusing;
mod revoking;
mod secrecy;
mod shared_cache;
mod starting;
mod tls;
mod traces;

/// The gateway.
const GATEWAY: test_support::program::Executable = test_support::program::Executable {
    path: env!("CARGO_BIN_EXE_auth-gateway-dev"),
};
