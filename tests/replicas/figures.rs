//! What a gateway counts and says of itself.

use test_support::app::TestApp;
use test_support::metrics;
use test_support::wait::until;

/// A figure of the gateway, by the name that it has after `auth_gateway_`; all labels together.
pub(crate) async fn figure(gateway: &TestApp, name: &str) -> u64 {
    metrics::sum(gateway.addresses().management, name, "").await
}

/// The codes of what readiness complains of.
pub(crate) async fn complaints(gateway: &TestApp) -> Vec<String> {
    let ready = gateway.ready().await;
    let reasons = ready.json()["reasons"].clone();
    let reasons = reasons.as_array().expect("a list").iter();
    let codes: Vec<_> = reasons
        .map(|reason| reason["code"].as_str().expect("a code").to_owned())
        .collect();
    // Redis takes no replica out of service, but for one that has not begun to serve.
    let begins = codes
        .iter()
        .any(|code| ["iam_not_probed", "revocations_catching_up"].contains(&code.as_str()));
    assert_eq!(ready.status, if begins { 503 } else { 200 });
    codes
}

/// Waits until readiness complains of exactly this.
pub(crate) async fn complains(gateway: &TestApp, codes: &[&str]) {
    until(&format!("complaints are {codes:?}"), async || {
        complaints(gateway).await == codes
    })
    .await;
}

/// Waits until nothing is left to tell.
pub(crate) async fn has_told_all(gateway: &TestApp) {
    until("all is told", async || {
        figure(gateway, "revocations_outbox").await == 0
    })
    .await;
}

/// Waits until so many revocations of other replicas are learned.
pub(crate) async fn has_learned(gateway: &TestApp, count: u64) {
    until(&format!("{count} are learned"), async || {
        figure(gateway, "revocations_received_total").await == count
    })
    .await;
}
