//! Asks the IAM from time to time, so that readiness does not wait for a user to find out. The
//! guard's observer gets the result.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{Guarded, IamAdapter as _};

/// Asks, and asks again after so long, without end.
pub(super) async fn run(iam: Arc<Guarded>, interval: Duration) {
    loop {
        let _ = iam.probe().await;
        tokio::time::sleep(interval).await;
    }
}
