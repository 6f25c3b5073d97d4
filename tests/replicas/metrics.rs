//! Waiting for the metrics of a gateway.

use test_support::gateway::TestGateway;
use test_support::wait::until;

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
