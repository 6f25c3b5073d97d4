//! Waiting for a condition.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// Ends a test that would hang. Far longer than any wait takes.
pub const DEADLINE: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(2);

/// Repeats the check until it holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_ok(what, async || if holds().await { Ok(()) } else { Err(()) }).await;
}

/// Repeats the attempt until it succeeds; the last error is part of the panic message.
pub async fn until_ok<T, E: Debug>(
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let began = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(began.elapsed() < DEADLINE, "waited for {what}: {error:?}"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The same as [`until_ok`], for tests without a runtime. It blocks the thread.
#[track_caller]
pub fn until_ok_blocking<T, E: Debug>(what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) => assert!(began.elapsed() < DEADLINE, "waited for {what}: {error:?}"),
        }
        thread::sleep(INTERVAL);
    }
}
