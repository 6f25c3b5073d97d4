//! Probes an IAM periodically, so that readiness does not depend on requests of users. The observer
//! of the adapter gets the results.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::IamAdapter;

/// Probes the IAM, with `interval` between two probes. Does not return.
pub(super) async fn run(iam: Arc<dyn IamAdapter>, interval: Duration) {
    loop {
        let _ = iam.probe().await;
        tokio::time::sleep(interval).await;
    }
}
