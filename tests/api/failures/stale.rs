//! `stale_if_error`: what is told of it.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::guarded::Operation;
use serde_json::json;

use super::faulty_adapter::{AdapterFixture, Fault};
use super::{STALE, TOO_SLOW};

/// How many tokens were signed on stale cached data.
async fn stale_tokens(fixture: &AdapterFixture) -> u64 {
    let label = "source=\"stale\"";
    fixture.gateway.metric("knowledge_total", label).await
}

#[tokio::test]
async fn tokens_on_stale_knowledge_are_counted_and_told_while_they_are_served_and_not_longer() {
    let fixture = AdapterFixture::new(&[("stale_if_error", "5m")]);
    let session = fixture.log_in().await.session();
    assert_eq!(fixture.exchange(&session).await.status, 200);
    fixture.clock.advance(STALE);
    assert_eq!(stale_tokens(&fixture).await, 0);
    fixture.gateway.wait_for_readiness("ready", &[]).await;

    let gone = Fault::Says(IamError::Unreachable("gone".to_owned()));
    fixture.fails(Operation::Introspection, gone);
    // More than it takes to open the circuit: who is not asked is silent, too.
    for _ in 0..30 {
        assert_eq!(fixture.exchange(&session).await.status, 200);
    }
    assert_eq!(stale_tokens(&fixture).await, 30);
    let codes = ["unreachable", "circuit_open", "serving_stale"];
    fixture.gateway.wait_for_readiness("degraded", &codes).await;
    let report = fixture.gateway.ready().await;
    assert_eq!(report.status, 200);
    assert_eq!(report.json()["iam"]["last_result"], json!("unreachable"));

    // Nobody comes for a while.
    fixture.clock.advance(Duration::from_secs(10));
    fixture
        .gateway
        .wait_for_readiness("degraded", &codes[..2])
        .await;
    // A logout counts at once.
    assert_eq!(fixture.gateway.log_out(&session).await.status, 200);
    fixture
        .exchange(&session)
        .await
        .is_error(401, "invalid_grant");
}

#[tokio::test]
async fn past_its_bound_stale_knowledge_is_no_knowledge() {
    let fixture = AdapterFixture::new(&[("stale_if_error", "5m")]);
    let session = fixture.log_in().await.session();
    fixture.fails(
        Operation::Introspection,
        Fault::Says(IamError::TimedOut(Duration::from_secs(2))),
    );
    let bound = Duration::from_secs(30 + 5 * 60);
    fixture
        .clock
        .advance(bound.saturating_sub(Duration::from_millis(1)));
    assert_eq!(fixture.exchange(&session).await.status, 200);
    fixture.clock.advance(Duration::from_millis(1));
    let answer = fixture.exchange(&session).await;
    TOO_SLOW.is_in(&answer, false, "past the bound");
    fixture.fails(Operation::Introspection, Fault::Never);
    assert_eq!(fixture.exchange(&session).await.status, 200);
    fixture
        .gateway
        .wait_for_readiness("degraded", &["serving_stale"])
        .await;
    fixture.clock.advance(Duration::from_secs(10));
    fixture.gateway.wait_for_readiness("ready", &[]).await;
}
