//! The control API of the mock: what QA does to an IAM, and what the gateway makes of it.

mod faults;
mod hosts;
mod journal;
mod requests;
mod sessions;
mod snapshots;
mod time;
mod tokens;
mod users;
