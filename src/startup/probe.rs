//! Asks the IAM from time to time, so that readiness does not wait for a user to find out. The
//! guard's observer gets the result.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{IamAdapter as _, ResilientAdapter};

/// Asks, and asks again after so long, without end.
pub(super) async fn run(iam: Arc<ResilientAdapter>, interval: Duration) {
    loop {
        let _ = iam.probe().await;
        tokio::time::sleep(interval).await;
    }
}
