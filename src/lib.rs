//! A service in front of one identity system (IAM): login, exchange of a session for an access
//! token, logout.
//!
//! * [`gateway`]: the operations over an adapter of the IAM. No HTTP, no Redis.
//! * [`http`]: routes, request and response bodies, middleware and problem responses.
//! * [`server`]: connection limits, deadlines and load shedding of a listener. Imports no other
//!   module.
//! * [`replication`]: sends and receives revocations through Redis.
//! * [`health`] and [`telemetry`]: readiness, metrics and logs.
//! * [`config`]: the settings.
//! * [`startup`]: connects all of these.
//! * [`cli`]: the commands.

pub mod cli;
pub mod config;
pub mod gateway;
pub mod health;
pub mod http;
pub mod replication;
pub mod server;
pub mod startup;
pub mod telemetry;
