use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Introspection};

use super::login::faults;
use super::test_gateway::{LIVENESS, MILLISECOND, PERMISSIONS, TestGateway, just_before, policy};
use crate::error::{GatewayError, InvalidSession};
use crate::results::DataSource;
use test_support::scripted_iam::{Reply, ScriptedIam};

const EXTRA: Duration = Duration::from_secs(300);

fn with_stale_if_error() -> TestGateway {
    let mut policy = policy();
    policy.iam.freshness.stale_if_error = EXTRA;
    TestGateway::with(ScriptedIam::default(), policy)
}

fn timed_out() -> IamError {
    IamError::TimedOut(Duration::from_secs(2))
}

#[tokio::test]
async fn stale_data_is_used_only_if_the_iam_does_not_respond() {
    for fault in faults() {
        let gateway = with_stale_if_error();
        let session = gateway.log_in("alice").await;
        gateway.clock.advance(LIVENESS);
        gateway.iam.set_outage(Some(fault.clone()));
        let exchanged = gateway.exchange(&session, "read").await;
        match fault {
            IamError::Unreadable(_) | IamError::Misconfigured { .. } => {
                assert_eq!(exchanged.err(), Some(GatewayError::from(fault)));
            }
            _ => assert_eq!(exchanged.unwrap().source, DataSource::Stale, "{fault}"),
        }
        assert_eq!(gateway.introspections(), 1);
    }
}

#[tokio::test]
async fn stale_data_is_used_up_to_its_limit_also_while_a_fault_is_held() {
    let gateway = with_stale_if_error();
    let session = gateway.log_in("alice").await;
    gateway.iam.set_outage(Some(timed_out()));
    gateway.clock.advance(just_before(LIVENESS + EXTRA));
    for _ in 1..4 {
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Stale);
        assert_eq!(gateway.introspections(), 1);
    }
    gateway.clock.advance(MILLISECOND);
    let failed = gateway.granted(&session).await;
    assert_eq!(failed, Err(timed_out().into()));
    // A response makes all data fresh.
    gateway.iam.set_outage(None);
    gateway.clock.advance(Duration::from_secs(1));
    let exchanged = gateway.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
}

#[tokio::test]
async fn stale_permissions_have_their_own_limit() {
    let gateway = with_stale_if_error();
    let session = gateway.log_in("alice").await;
    gateway.clock.advance(just_before(PERMISSIONS + EXTRA));
    let now = gateway.inner.replica.clock.now();
    let cache = &gateway.iam().introspection_cache;
    let fingerprint = gateway.fingerprint(&session);
    cache.insert(&fingerprint, now, None);
    gateway.iam.set_outage(Some(timed_out()));
    let exchanged = gateway.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Stale);
    gateway.clock.advance(MILLISECOND);
    let failed = gateway.granted(&session).await;
    assert_eq!(failed, Err(timed_out().into()));
}

#[tokio::test]
async fn session_that_the_iam_reported_as_active_needs_no_further_report_if_only_the_decision_fails()
 {
    for (fault, introspected) in [
        (IamError::Failed("500".to_owned()), true),
        (timed_out(), true),
        // Also without a call to the IAM.
        (IamError::CircuitOpen, false),
    ] {
        let gateway = with_stale_if_error();
        let session = gateway.log_in("alice").await;
        gateway.clock.advance(just_before(LIVENESS + EXTRA));
        let fault = IamError::PermissionSource(Box::new(fault));
        gateway.iam.set_outage(Some(fault.clone()));
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Stale);
        gateway.clock.advance(Duration::from_secs(10));
        let exchanged = gateway.exchange(&session, "read").await;
        assert_eq!(exchanged.is_ok(), introspected, "{fault}");
    }
}

#[tokio::test]
async fn fresh_and_stale_data_are_used_together() {
    // Stale liveness, and permissions that another session has refreshed.
    let gateway = with_stale_if_error();
    let session = gateway.log_in("alice").await;
    gateway.clock.advance(LIVENESS);
    gateway.iam.permit("alice", "write");
    gateway.log_in("alice").await;
    gateway.iam.set_outage(Some(timed_out()));
    let exchanged = gateway.exchange(&session, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Stale);
    assert_eq!(exchanged.scope, "write");

    // Stale permissions, and fresh liveness.
    let gateway = with_stale_if_error();
    let session = gateway.log_in("alice").await;
    gateway.clock.advance(PERMISSIONS);
    let cache = &gateway.iam().introspection_cache;
    let fingerprint = gateway.fingerprint(&session);
    cache.insert(&fingerprint, gateway.inner.replica.clock.now(), None);
    gateway.iam.set_outage(Some(timed_out()));
    let exchanged = gateway.exchange(&session, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Stale);
    assert_eq!(exchanged.scope, "read write");

    // No data at all.
    let cold = gateway.replica();
    let failed = cold.granted(&session).await;
    assert_eq!(failed, Err(timed_out().into()));
}

#[tokio::test]
async fn data_that_expires_during_the_failed_introspection_is_not_used() {
    let gateway = with_stale_if_error();
    let session = gateway.log_in("alice").await;
    gateway.clock.advance(just_before(LIVENESS + EXTRA));
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (exchange, call) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.clock.advance(MILLISECOND);
    call.reply(Reply::Fault(timed_out()));
    assert_eq!(exchange.await.unwrap().err(), Some(timed_out().into()));
}

#[tokio::test]
async fn revocation_and_inactive_take_precedence_over_stale_data() {
    let gateway = with_stale_if_error();
    let (one, other) = (gateway.log_in("alice").await, gateway.log_in("bob").await);
    gateway.clock.advance(LIVENESS);
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (exchange, call) = gateway.exchange_in_flight(&one, &mut calls).await;
    gateway.iam.set_outage(Some(timed_out()));
    gateway.log_out(&one).await.unwrap_err();
    call.reply(Reply::Fault(timed_out()));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Revoked.into()));
    gateway.iam.release(Operation::Introspection);

    let inactive = Reply::Introspection(Introspection::Inactive);
    gateway.iam.script(Operation::Introspection, inactive);
    for _ in 0..2 {
        let refused = gateway.granted(&other).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()));
    }
}

#[tokio::test]
async fn no_stale_data_is_used_after_the_wall_clock_was_set_back() {
    let gateway = with_stale_if_error();
    let session = gateway.log_in("alice").await;
    gateway.iam.set_outage(Some(timed_out()));
    gateway.set_wall_clock_back(Duration::from_secs(61));
    let failed = gateway.granted(&session).await;
    assert_eq!(failed, Err(timed_out().into()));
}
