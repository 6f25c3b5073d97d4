//! A service in front of one identity system (IAM): login, exchange of a session for an access
//! token, logout. The operations are those of `auth-gateway-core`, its listener is `auth-gateway-server`.
//!
//! * [`http`]: routes, request and response bodies, middleware and error responses.
//! * [`replication`]: sends and receives revocations through Redis.
//! * [`health`] and [`telemetry`]: readiness, metrics and logs.
//! * `audit`: the audit log.
//! * [`config`]: the settings.
//! * [`startup`]: connects all of these.
//! * [`cli`]: the commands.

mod audit;
pub mod cli;
pub mod config;
pub mod health;
pub mod http;
pub mod startup;
pub mod telemetry;

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the program was built from, or `unknown`.
pub const COMMIT: &str = env!("AUTH_GATEWAY_COMMIT");

/// Both, as `--version` writes them.
pub const VERSION_AND_COMMIT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("AUTH_GATEWAY_COMMIT"),
    ")"
);
