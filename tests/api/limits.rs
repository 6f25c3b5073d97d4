//! Limits of login attempts, and which attempts reach the IAM.

use test_support::client::Response;
use test_support::scenario::{EMAIL as ALICE, PASSWORD as RIGHT, Scenario};

mod answers;
mod forwarding;
mod operator;

/// Panics unless a limit refused it, for this number of seconds.
#[track_caller]
fn is_stopped(answer: &Response, seconds: &str) {
    answer.is_error(429, "temporarily_unavailable");
    assert_eq!(answer.header("retry-after"), seconds);
    assert_eq!(answer.header("cache-control"), "no-store");
}
