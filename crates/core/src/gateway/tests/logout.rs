use std::time::Duration;

use futures_util::FutureExt as _;
use iam_adapters::IamError;
use iam_adapters::resilient::Operation;

use super::test_gateway::{LIVENESS, TestGateway, refresh_period, without_refresh};
use crate::error::{InvalidSession, NotReady};
use crate::timeline::DIFFERENCE_MAX;
use test_support::scripted_iam::Reply;

const DAY: Duration = Duration::from_hours(24);

#[tokio::test]
async fn session_is_revoked_before_the_call_to_the_iam() {
    let (gateway, session) = TestGateway::with_session().await;
    let mut calls = gateway.iam.hold(Operation::Logout);
    let mut logout = Box::pin(gateway.log_out(&session));
    assert!(logout.as_mut().now_or_never().is_none());
    let call = calls.next().await;
    let refused = gateway.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Revoked.into()));
    assert!(!gateway.iam.has_ended("secret-1"));
    call.reply(Reply::Model);
    logout.await.unwrap();
    assert!(gateway.iam.has_ended("secret-1"));
    let refused = gateway.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert_eq!(gateway.introspections(), 0);
}

#[tokio::test]
async fn repeated_logout_succeeds_without_another_call() {
    let (gateway, session) = TestGateway::with_session().await;
    for _ in 0..3 {
        gateway.log_out(&session).await.unwrap();
        assert_eq!(gateway.iam.calls(Operation::Logout), 1);
    }
}

#[tokio::test]
async fn logout_of_a_session_that_has_expired_by_a_wrong_clock_is_effective_once_that_is_right() {
    let failed = IamError::Failed("502".to_owned());
    for (reply, result, refusal) in [
        (Reply::Model, Ok(()), InvalidSession::Ended),
        (
            Reply::Fault(failed.clone()),
            Err(failed.into()),
            InvalidSession::Revoked,
        ),
    ] {
        let (gateway, session) = TestGateway::with_session().await;
        gateway.iam.script(Operation::Logout, reply);
        let at = Duration::from_secs(session.expires_at);
        gateway.clock.set_wall(at);
        assert_eq!(gateway.log_out(&session).await, result);
        gateway.set_wall_clock_back(Duration::from_secs(300));
        let refused = gateway.granted(&session).await;
        assert_eq!(refused, Err(refusal.into()));
    }
}

#[tokio::test]
async fn logout_reaches_the_iam_although_its_client_disconnects() {
    let (gateway, session) = TestGateway::with_session().await;
    let mut calls = gateway.iam.hold(Operation::Logout);
    let mut logout = Box::pin(gateway.log_out(&session));
    assert!(logout.as_mut().now_or_never().is_none());
    drop(logout);
    assert_eq!(gateway.events.take(), ["logout without an end of alice"]);
    calls.next().await.reply(Reply::Model);
    gateway.iam.release(Operation::Logout);
    // On a single thread, the task of the logout has run by then.
    tokio::task::yield_now().await;
    assert!(gateway.iam.has_ended("secret-1"));
    gateway.log_out(&session).await.unwrap();
    assert_eq!(gateway.iam.calls(Operation::Logout), 1);
}

#[tokio::test]
async fn logout_does_not_affect_other_sessions_of_the_user() {
    let gateway = TestGateway::new();
    let (one, other) = (gateway.log_in("alice").await, gateway.log_in("alice").await);
    gateway.log_out(&one).await.unwrap();
    gateway.clock.advance(LIVENESS);
    assert_eq!(gateway.granted(&other).await.unwrap(), "read write");
}

#[tokio::test]
async fn replicas_accept_each_others_sessions_and_refuse_them_after_logout_within_freshness() {
    let one = TestGateway::new();
    let other = one.replica();
    let session = one.log_in("alice").await;
    assert_eq!(other.granted(&session).await.unwrap(), "read write");
    one.log_out(&session).await.unwrap();
    assert_eq!(
        one.granted(&session).await,
        Err(InvalidSession::Ended.into())
    );
    other.clock.advance(without_refresh(LIVENESS));
    assert_eq!(other.granted(&session).await.unwrap(), "read write");
    other.clock.advance(refresh_period(LIVENESS));
    assert_eq!(
        other.granted(&session).await,
        Err(InvalidSession::Ended.into())
    );
    other.log_out(&session).await.unwrap();
}

/// The number of parallel logouts of one client in an overload test.
const PARALLEL: usize = 420;

#[tokio::test]
async fn parallel_logouts_of_one_session_share_one_call_to_the_iam() {
    let failure = IamError::Failed("502".to_owned());
    for (reply, answer, calls_after) in [
        (Reply::Model, Ok(()), 1),
        // A later logout after a failure is a new call.
        (Reply::Fault(failure.clone()), Err(failure.into()), 2),
    ] {
        let (gateway, session) = TestGateway::with_session().await;
        let mut calls = gateway.iam.hold(Operation::Logout);
        let parallel: Vec<_> = (0..PARALLEL)
            .map(|_| {
                let (gateway, session) = (gateway.clone(), session.clone());
                tokio::spawn(async move { gateway.log_out(&session).await })
            })
            .collect();
        let call = calls.next().await;
        // On a single thread, all have made their calls by then.
        tokio::task::yield_now().await;
        assert_eq!(gateway.iam.calls(Operation::Logout), 1);
        gateway.iam.release(Operation::Logout);
        call.reply(reply);
        for logout in parallel {
            assert_eq!(logout.await.unwrap(), answer);
        }
        gateway.log_out(&session).await.unwrap();
        assert_eq!(gateway.iam.calls(Operation::Logout), calls_after);
    }
}

#[tokio::test]
async fn logouts_of_different_sessions_are_different_calls() {
    let gateway = TestGateway::new();
    let (one, other) = (gateway.log_in("alice").await, gateway.log_in("alice").await);
    let mut calls = gateway.iam.hold(Operation::Logout);
    let mut pending = Vec::new();
    for session in [one, other] {
        let gateway = gateway.clone();
        pending.push(tokio::spawn(async move { gateway.log_out(&session).await }));
        calls.next().await.reply(Reply::Model);
    }
    for logout in pending {
        logout.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn full_table_of_revocations_refuses_logins_and_still_ends_sessions() {
    const CAPACITY: usize = 4;
    let gateway = TestGateway::new().replica_with_room(CAPACITY);
    let (victim, bystander) = (gateway.log_in("bob").await, gateway.log_in("bob").await);
    for _ in 0..CAPACITY {
        let filling = gateway.log_in("alice").await;
        gateway.log_out(&filling).await.unwrap();
    }
    let logins = gateway.iam.calls(Operation::Login);
    for subject in ["alice", "bob"] {
        let email = format!("{subject}@example.test");
        let refused = gateway.try_log_in(&email, "right").await.err();
        assert_eq!(refused, Some(NotReady::TooManyRevocations.into()));
    }
    assert_eq!(gateway.iam.calls(Operation::Login), logins);
    gateway.log_out(&victim).await.unwrap();
    let refused = gateway.granted(&victim).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert!(gateway.granted(&bystander).await.is_ok());
    // Once the sessions that ended would have expired.
    gateway.clock.advance(DAY + 2 * DIFFERENCE_MAX);
    gateway.log_in("alice").await;
}
