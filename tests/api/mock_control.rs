//! The control API of the mock, and its effect on the gateway.

mod faults;
mod hosts;
mod journal;
mod one_time_passwords;
mod requests;
mod sessions;
mod snapshots;
mod time;
mod tokens;
mod users;
