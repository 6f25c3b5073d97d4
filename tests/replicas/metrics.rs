//! The metrics of a gateway, and waiting for them.

use test_support::gateway::TestGateway;
use test_support::wait::until;

/// The number of introspections by the gateway to which the IAM responded.
pub(crate) async fn introspections(gateway: &TestGateway) -> u64 {
    let calls = "operation=\"introspection\",outcome=\"ok\"";
    gateway.metric("iam_calls_total", calls).await
}

/// Waits until the gateway has sent all its revocations.
pub(crate) async fn has_sent_all(gateway: &TestGateway) {
    until("all revocations to be sent", async || {
        gateway.metric("revocations_pending", "").await == 0
    })
    .await;
}

/// Waits until the gateway has received this number of revocations of other replicas.
pub(crate) async fn has_received(gateway: &TestGateway, count: u64) {
    until(&format!("{count} revocations to be received"), async || {
        gateway.metric("revocations_received_total", "").await == count
    })
    .await;
}
