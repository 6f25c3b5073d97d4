//! `stale_if_error`: what is told of it.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::guarded::Operation;
use serde_json::json;
use test_support::wire::{Connection, get};

use super::faulty::{Fault, Scene};
use super::wired::says;
use super::{STALE, TOO_SLOW};

/// How many tokens were signed on stale knowledge.
async fn counted(scene: &Scene) -> String {
    let management = scene.gateway.addresses().management;
    let figures = tokio::task::spawn_blocking(move || {
        Connection::to(management)
            .send(get("/metrics"))
            .answer()
            .body
    });
    let figures = figures.await.expect("figures");
    let series = "auth_gateway_knowledge_total{source=\"stale\"} ";
    let count = figures.lines().find_map(|line| line.strip_prefix(series));
    count.expect("the series").to_owned()
}

#[tokio::test]
async fn tokens_on_stale_knowledge_are_counted_and_told_while_they_are_served_and_not_longer() {
    let scene = Scene::new(&[("stale_if_error", "5m")]);
    let session = scene.log_in().await.session();
    assert_eq!(scene.exchange(&session).await.status, 200);
    scene.clock.advance(STALE);
    assert_eq!(counted(&scene).await, "0");
    says(&scene.gateway, "ready", &[]).await;

    let gone = Fault::Says(IamError::Unreachable("gone".to_owned()));
    scene.fails(Operation::Introspection, gone);
    // More than it takes to open the circuit: who is not asked is silent, too.
    for _ in 0..30 {
        assert_eq!(scene.exchange(&session).await.status, 200);
    }
    assert_eq!(counted(&scene).await, "30");
    let codes = ["unreachable", "circuit_open", "serving_stale"];
    says(&scene.gateway, "degraded", &codes).await;
    let report = scene.gateway.ready().await;
    assert_eq!(report.status, 200);
    assert_eq!(report.json()["iam"]["last_result"], json!("unreachable"));

    // Nobody comes for a while.
    scene.clock.advance(Duration::from_secs(10));
    says(&scene.gateway, "degraded", &codes[..2]).await;
    // A logout counts at once.
    assert_eq!(scene.gateway.log_out(&session).await.status, 200);
    scene
        .exchange(&session)
        .await
        .is_error(401, "invalid_grant");
}

#[tokio::test]
async fn past_its_bound_stale_knowledge_is_no_knowledge() {
    let scene = Scene::new(&[("stale_if_error", "5m")]);
    let session = scene.log_in().await.session();
    scene.fails(
        Operation::Introspection,
        Fault::Says(IamError::TimedOut(Duration::from_secs(2))),
    );
    let bound = Duration::from_secs(30 + 5 * 60);
    scene
        .clock
        .advance(bound.saturating_sub(Duration::from_millis(1)));
    assert_eq!(scene.exchange(&session).await.status, 200);
    scene.clock.advance(Duration::from_millis(1));
    let answer = scene.exchange(&session).await;
    TOO_SLOW.is_in(&answer, false, "past the bound");
    scene.fails(Operation::Introspection, Fault::Never);
    assert_eq!(scene.exchange(&session).await.status, 200);
    says(&scene.gateway, "degraded", &["serving_stale"]).await;
    scene.clock.advance(Duration::from_secs(10));
    says(&scene.gateway, "ready", &[]).await;
}
