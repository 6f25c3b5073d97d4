//! What this machine does not have.

use std::io::Write as _;

/// Reports that a test does not run, and why. It fails if CI=true.
#[track_caller]
pub fn not_run(why: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "NOT RUN: {why}");
    // The test harness prints the output of macros only for failed tests.
    writeln!(std::io::stderr(), "!!!!!!!!!!!!!!!!!!!! NOT RUN: {why}").expect("written");
}
