//! A logout that the IAM does not confirm.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::Operation;
use test_support::client::Session;
use test_support::scenario::{Fault, Scenario};
use test_support::wait::until;

use super::UNAVAILABLE;

/// A session whose logout does not reach the IAM.
async fn failed_logout(fixture: &Scenario) -> Session {
    let session = fixture.log_in().await.session();
    let unreachable_iam = Fault::Error(IamError::Unreachable("unreachable".into()));
    fixture.fails(Operation::Logout, unreachable_iam);
    let answer = fixture.log_out(&session).await;
    UNAVAILABLE.is_in(&answer, false, "not reached");
    session
}

/// The age from which an unfinished logout is reported, and the longest pause between two calls.
const OVERDUE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn failed_logout_is_finished_without_a_further_request_when_the_iam_works_again() {
    let fixture = Scenario::new(&[]);
    let gateway = &fixture.gateway;
    let session = failed_logout(&fixture).await;
    assert_eq!(gateway.metric("unfinished_logouts", "").await, 1);
    gateway
        .wait_for_readiness("degraded", &["unreachable"])
        .await;
    fixture.clock.advance(OVERDUE);
    let codes = ["unreachable", "unfinished_logouts"];
    gateway.wait_for_readiness("degraded", &codes).await;
    assert_eq!(fixture.active_sessions(), 1);

    fixture.recovers();
    fixture.clock.advance(OVERDUE);
    until("the end of the session at the IAM", async || {
        fixture.active_sessions() == 0
    })
    .await;
    gateway.wait_for_readiness("ready", &[]).await;
    assert_eq!(gateway.metric("unfinished_logouts", "").await, 0);
    let ended = "unfinished_logouts_ended_total";
    assert_eq!(gateway.metric(ended, "outcome=\"finished\"").await, 1);
    assert_eq!(gateway.metric(ended, "").await, 1);

    let calls = async || {
        gateway
            .metric("iam_calls_total", "operation=\"logout\"")
            .await
    };
    let before = calls().await;
    assert_eq!(gateway.log_out(&session).await.status, 200);
    assert_eq!(calls().await, before);
}
