use std::time::Duration;

use futures_util::FutureExt as _;
use iam_adapters::IamError;
use iam_adapters::resilient::Operation;

use super::house::{House, LIVENESS, surely_fresh, the_rest};
use super::login::faults;
use super::scripted::Reply;
use crate::gateway::error::{GatewayError, InvalidSession, NotReady};
use crate::gateway::revocations::Room;

#[tokio::test]
async fn the_session_is_over_here_before_the_iam_is_told() {
    let house = House::new();
    let session = house.log_in("alice").await;
    let mut calls = house.iam.hold(Operation::Logout);
    let mut logout = Box::pin(house.log_out(&session));
    assert!(logout.as_mut().now_or_never().is_none());
    let call = calls.next().await;
    let refused = house.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Revoked.into()));
    assert!(!house.iam.has_ended("secret-1"));
    call.reply(Reply::Model);
    logout.await.unwrap();
    assert!(house.iam.has_ended("secret-1"));
    let refused = house.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert_eq!(house.introspections(), 0);
}

#[tokio::test]
async fn where_the_iam_fails_the_session_stays_over_here_and_a_retry_tells_the_iam_again() {
    for fault in faults() {
        let house = House::new();
        let session = house.log_in("alice").await;
        let means = GatewayError::from(fault.clone());
        house.iam.script(Operation::Logout, Reply::Fault(fault));
        assert_eq!(house.log_out(&session).await, Err(means));
        let refused = house.granted(&session).await;
        assert_eq!(refused, Err(InvalidSession::Revoked.into()));
        house.log_out(&session).await.unwrap();
        assert!(house.iam.has_ended("secret-1"));
        assert_eq!(house.iam.calls(Operation::Logout), 2);
    }
}

#[tokio::test]
async fn a_logout_that_succeeded_can_be_repeated_and_tells_the_iam_nothing_more() {
    let house = House::new();
    let session = house.log_in("alice").await;
    for _ in 0..3 {
        house.log_out(&session).await.unwrap();
        assert_eq!(house.iam.calls(Operation::Logout), 1);
    }
}

#[tokio::test]
async fn logging_out_an_expired_session_is_a_success_and_tells_nobody() {
    for (early, calls) in [(1, 1), (0, 0)] {
        let house = House::new();
        let session = house.log_in("alice").await;
        let at = Duration::from_secs(session.expires_at - early);
        house.clock.set_wall(at);
        house.log_out(&session).await.unwrap();
        assert_eq!(house.iam.calls(Operation::Logout), calls);
        let revoked = usize::from(calls > 0);
        assert_eq!(house.gateway.session_ends().revocations().count(), revoked);
    }
}

#[tokio::test]
async fn a_logout_reaches_the_iam_although_its_client_hangs_up() {
    let house = House::new();
    let session = house.log_in("alice").await;
    let mut calls = house.iam.hold(Operation::Logout);
    let mut logout = Box::pin(house.log_out(&session));
    assert!(logout.as_mut().now_or_never().is_none());
    drop(logout);
    calls.next().await.reply(Reply::Model);
    house.iam.let_go(Operation::Logout);
    // On this one thread, whoever was woken before has run by then.
    tokio::task::yield_now().await;
    assert!(house.iam.has_ended("secret-1"));
    house.log_out(&session).await.unwrap();
    assert_eq!(house.iam.calls(Operation::Logout), 1);
}

#[tokio::test]
async fn logging_out_one_session_leaves_the_users_other_sessions_alone() {
    let house = House::new();
    let (one, other) = (house.log_in("alice").await, house.log_in("alice").await);
    house.log_out(&one).await.unwrap();
    house.clock.advance(LIVENESS);
    assert_eq!(house.granted(&other).await.unwrap(), "read write");
}

#[tokio::test]
async fn replicas_accept_each_others_sessions_and_feel_each_others_logouts_within_freshness() {
    let one = House::new();
    let other = one.replica();
    let session = one.log_in("alice").await;
    assert_eq!(other.granted(&session).await.unwrap(), "read write");
    one.log_out(&session).await.unwrap();
    assert_eq!(
        one.granted(&session).await,
        Err(InvalidSession::Ended.into())
    );
    other.clock.advance(surely_fresh(LIVENESS));
    assert_eq!(other.granted(&session).await.unwrap(), "read write");
    other.clock.advance(the_rest(LIVENESS));
    assert_eq!(
        other.granted(&session).await,
        Err(InvalidSession::Ended.into())
    );
    other.log_out(&session).await.unwrap();
}

#[tokio::test]
async fn thousands_of_logouts_are_remembered_and_forgotten_once_the_sessions_would_be_over() {
    let house = House::new();
    let mut sessions = Vec::new();
    for _ in 0..2_000 {
        let session = house.log_in("alice").await;
        house.log_out(&session).await.unwrap();
        sessions.push(session);
    }
    for session in &sessions {
        assert_eq!(
            house.granted(session).await,
            Err(InvalidSession::Ended.into())
        );
    }
    assert_eq!(house.gateway.session_ends().revocations().count(), 2_000);
    house.clock.advance(Duration::from_secs(86_400 + 61));
    for _ in 0..2_100 {
        let session = house.log_in("alice").await;
        house.log_out(&session).await.unwrap();
    }
    assert!(house.gateway.session_ends().revocations().count() <= 2_100);
}

/// As many as an overload of one client makes, all before the IAM has answered the first.
const PARALLEL: usize = 420;

#[tokio::test]
async fn parallel_logouts_of_one_session_make_one_call_to_the_iam_and_share_its_answer() {
    let failure = IamError::Failed("502".to_owned());
    for (reply, answer, calls_after) in [
        (Reply::Model, Ok(()), 1),
        // A later logout after a failure is a new call.
        (Reply::Fault(failure.clone()), Err(failure.into()), 2),
    ] {
        let house = House::new();
        let session = house.log_in("alice").await;
        let mut calls = house.iam.hold(Operation::Logout);
        let parallel: Vec<_> = (0..PARALLEL)
            .map(|_| {
                let (house, session) = (house.clone(), session.clone());
                tokio::spawn(async move { house.log_out(&session).await })
            })
            .collect();
        let call = calls.next().await;
        // On this one thread, each has gone as far as it can by then.
        tokio::task::yield_now().await;
        assert_eq!(house.iam.calls(Operation::Logout), 1);
        house.iam.let_go(Operation::Logout);
        call.reply(reply);
        for logout in parallel {
            assert_eq!(logout.await.unwrap(), answer);
        }
        house.log_out(&session).await.unwrap();
        assert_eq!(house.iam.calls(Operation::Logout), calls_after);
    }
}

#[tokio::test]
async fn logouts_of_different_sessions_are_different_calls() {
    let house = House::new();
    let (one, other) = (house.log_in("alice").await, house.log_in("alice").await);
    let mut calls = house.iam.hold(Operation::Logout);
    let mut pending = Vec::new();
    for session in [one, other] {
        let house = house.clone();
        pending.push(tokio::spawn(async move { house.log_out(&session).await }));
        calls.next().await.reply(Reply::Model);
    }
    for logout in pending {
        logout.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn full_table_of_revocations_refuses_logins_and_still_ends_sessions() {
    const ROOM: Room = Room { usual: 2, most: 4 };
    let house = House::new().replica_with_room(ROOM);
    let (victim, bystander) = (house.log_in("bob").await, house.log_in("bob").await);
    for _ in 0..ROOM.most {
        let filling = house.log_in("alice").await;
        house.log_out(&filling).await.unwrap();
    }
    let logins = house.iam.calls(Operation::Login);
    for subject in ["alice", "bob"] {
        let email = format!("{subject}@example.test");
        let refused = house.try_log_in(&email, "right").await.err();
        assert_eq!(refused, Some(NotReady::TooManyRevocations.into()));
    }
    assert_eq!(house.iam.calls(Operation::Login), logins);
    house.log_out(&victim).await.unwrap();
    let refused = house.granted(&victim).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert!(house.granted(&bystander).await.is_ok());
    // Once the sessions that ended would have expired.
    house.clock.advance(Duration::from_secs(86_400 + 61));
    house.log_in("alice").await;
}
