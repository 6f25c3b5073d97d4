//! A service in front of one identity system (IAM): login, exchange of a session for an access
//! token, logout.
//!
//! * [`gateway`]: the operations over an adapter of the IAM. No HTTP, no Redis.
//! * [`http`]: routes, request and response bodies, middleware and problem responses.
//! * [`server`]: connection limits, deadlines and load shedding of a listener. Imports no other
//!   module.
//! * [`replication`]: sends and receives revocations through Redis.
//! * [`health`] and [`telemetry`]: readiness, metrics and logs.
//! * [`audit`]: the audit log.
//! * [`config`]: the settings.
//! * [`startup`]: connects all of these.
//! * [`cli`]: the commands.
//! * [`name`]: the names of values in metrics, logs and responses.

pub mod audit;
pub mod cli;
pub mod config;
pub mod gateway;
pub mod health;
pub mod http;
pub mod name;
pub mod replication;
pub mod server;
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
