//! How `stale_if_error` is reported.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::Operation;
use serde_json::json;
use test_support::scenario::{Fault, Scenario};

use super::STALE;

/// How many tokens were signed on stale cached data.
async fn stale_tokens(fixture: &Scenario) -> u64 {
    let label = "source=\"stale\"";
    fixture.gateway.metric("exchanges_total", label).await
}

#[tokio::test]
async fn tokens_signed_on_stale_data_are_counted_and_reported_in_readiness_while_they_are_issued() {
    let fixture = Scenario::new(&[("stale_if_error", "5m")]);
    let session = fixture.log_in().await.session();
    assert_eq!(fixture.exchange(&session).await.status, 200);
    fixture.clock.advance(STALE);
    assert_eq!(stale_tokens(&fixture).await, 0);
    fixture.gateway.wait_for_readiness("ready", &[]).await;

    let unreachable_iam = Fault::Error(IamError::Unreachable("unreachable".into()));
    fixture.fails(Operation::Introspection, unreachable_iam);
    // More calls than open the circuit: stale data is also used while it is open.
    for _ in 0..30 {
        assert_eq!(fixture.exchange(&session).await.status, 200);
    }
    assert_eq!(stale_tokens(&fixture).await, 30);
    let codes = ["unreachable", "circuit_open", "serving_stale"];
    fixture.gateway.wait_for_readiness("degraded", &codes).await;
    let report = fixture.gateway.ready().await;
    assert_eq!(report.status, 200);
    assert_eq!(
        report.json()["iams"][0]["last_result"],
        json!("unreachable")
    );

    // No request for a while.
    fixture.clock.advance(Duration::from_secs(10));
    fixture
        .gateway
        .wait_for_readiness("degraded", &codes[..2])
        .await;
    // A logout takes effect at once.
    assert_eq!(fixture.log_out(&session).await.status, 200);
    fixture
        .exchange(&session)
        .await
        .is_error(401, "invalid_grant");
}
