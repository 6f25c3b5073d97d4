use iam_adapters::Introspection;
use iam_adapters::resilient::Operation;

use super::test_gateway::{LIVENESS, TestGateway, active};
use crate::error::InvalidSession;
use test_support::scripted_iam::Reply;

#[tokio::test]
async fn logout_during_an_introspection_refuses_the_exchange() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (exchange, call) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.log_out(&session).await.unwrap();
    call.reply(active("alice", "read write"));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
    // The later response does not restore the session.
    gateway.iam.release(Operation::Introspection);
    let refused = gateway.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert_eq!(gateway.introspections(), 1);
}

#[tokio::test]
async fn inactive_in_a_newer_introspection_refuses_the_exchange_of_an_older_one() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (early, early_call) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.clock.advance(LIVENESS);
    let (late, late_call) = gateway.exchange_in_flight(&session, &mut calls).await;
    late_call.reply(Reply::Introspection(Introspection::Inactive));
    let refused = late.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
    // Too old to decide, so there is one more call. It does not restore the session either.
    early_call.reply(active("alice", "read write"));
    calls.next().await.reply(active("alice", "read write"));
    let refused = early.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
}

#[tokio::test]
async fn inactive_is_final_and_not_introspected_again() {
    let (gateway, session) = TestGateway::with_session().await;
    gateway.iam.end("secret-1");
    gateway.clock.advance(LIVENESS);
    for _ in 0..3 {
        let refused = gateway.granted(&session).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()));
        assert_eq!(gateway.introspections(), 1);
        gateway.clock.advance(LIVENESS);
    }
}

#[tokio::test]
async fn logout_of_a_session_that_was_inactive_calls_the_iam() {
    let (gateway, session) = TestGateway::with_session().await;
    // As while an account is disabled: its sessions are active again when it is enabled.
    let inactive = Reply::Introspection(Introspection::Inactive);
    gateway.iam.script(Operation::Introspection, inactive);
    gateway.clock.advance(LIVENESS);
    gateway.granted(&session).await.unwrap_err();
    let replica = gateway.replica();
    assert!(replica.granted(&session).await.is_ok());
    gateway.log_out(&session).await.unwrap();
    assert!(gateway.iam.has_ended("secret-1"));
    replica.clock.advance(LIVENESS);
    let refused = replica.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
}
