//! A logout that the IAM does not confirm.

use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Misconfiguration};
use test_support::client::Session;
use test_support::wait::until;

use super::faulty_adapter::{AdapterFixture, Fault};
use super::{BROKEN, STALE, TOO_SLOW, UNAVAILABLE, throttled};

#[tokio::test]
async fn unconfirmed_logout_ends_the_session_at_the_gateway_and_can_be_repeated() {
    let fixture = AdapterFixture::new(&[]);
    let fails_with = |error| Fault::Error(error);
    let tls = IamError::misconfigured(Misconfiguration::Tls, "expired");
    for (fault, expected) in [
        (
            fails_with(IamError::Unreachable("unreachable".into())),
            UNAVAILABLE,
        ),
        (
            fails_with(IamError::TimedOut(Duration::from_secs(5))),
            TOO_SLOW,
        ),
        (
            fails_with(IamError::Throttled { retry_after: None }),
            throttled(5),
        ),
        (fails_with(IamError::Unreadable("HTML".into())), BROKEN),
        (fails_with(tls), BROKEN),
        (Fault::Panics, BROKEN),
    ] {
        let why = format!("{fault:?}");
        fixture.recovers();
        let session = fixture.log_in().await.session();
        fixture.fails(Operation::Logout, fault);
        for _ in 0..2 {
            let answer = fixture.gateway.log_out(&session).await;
            expected.is_in(&answer, false, &why);
            // Fresh data and an active session at the IAM change nothing.
            let answer = fixture.exchange(&session).await;
            answer.is_error(401, "invalid_grant");
            fixture.clock.advance(STALE);
        }
        fixture.recovers();
        assert_eq!(fixture.gateway.log_out(&session).await.status, 200, "{why}");
        let answer = fixture.exchange(&session).await;
        answer.is_error(401, "invalid_grant");
    }
}

/// A session whose logout does not reach the IAM.
async fn failed_logout(fixture: &AdapterFixture) -> Session {
    let session = fixture.log_in().await.session();
    let unreachable_iam = Fault::Error(IamError::Unreachable("unreachable".into()));
    fixture.fails(Operation::Logout, unreachable_iam);
    let answer = fixture.gateway.log_out(&session).await;
    UNAVAILABLE.is_in(&answer, false, "not reached");
    session
}

/// The age from which an unfinished logout is reported, and the longest pause between two calls.
const OVERDUE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn failed_logout_is_finished_without_a_further_request_when_the_iam_works_again() {
    let fixture = AdapterFixture::new(&[]);
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

#[tokio::test]
async fn unfinished_logout_ends_when_the_session_expires() {
    let fixture = AdapterFixture::new(&[("session.max_lifetime", "1h")]);
    let gateway = &fixture.gateway;
    failed_logout(&fixture).await;
    fixture.clock.advance(Duration::from_secs(3_600));
    let expired = "outcome=\"expired\"";
    until("the end of the logout", async || {
        gateway
            .metric("unfinished_logouts_ended_total", expired)
            .await
            == 1
    })
    .await;
    assert_eq!(gateway.metric("unfinished_logouts", "").await, 0);
}
