use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Introspection};

use super::house::{House, LIVENESS, MOMENT, PERMISSIONS, just_before, policy};
use super::login::faults;
use super::scripted::{Reply, Scripted};
use crate::gateway::error::{GatewayError, InvalidSession};
use crate::gateway::knowledge::Source;

const EXTRA: Duration = Duration::from_secs(300);

fn tolerant() -> House {
    let mut policy = policy();
    policy.freshness.stale_if_error = EXTRA;
    House::with(Scripted::default(), policy)
}

fn silence() -> IamError {
    IamError::TimedOut(Duration::from_secs(2))
}

#[tokio::test]
async fn by_default_a_silent_iam_means_no_token() {
    for fault in faults() {
        let house = House::new();
        let session = house.log_in("alice").await;
        house.clock.advance(LIVENESS);
        house.iam.break_down(Some(fault.clone()));
        let failed = house.granted(&session).await;
        assert_eq!(failed, Err(GatewayError::from(fault)));
    }
}

#[tokio::test]
async fn where_it_is_allowed_only_silence_lets_old_knowledge_stand_in() {
    for fault in faults() {
        let house = tolerant();
        let session = house.log_in("alice").await;
        house.clock.advance(LIVENESS);
        house.iam.break_down(Some(fault.clone()));
        let exchanged = house.exchange(&session, "read").await;
        match fault {
            IamError::Unreadable(_) | IamError::Misconfigured { .. } => {
                assert_eq!(exchanged.err(), Some(GatewayError::from(fault)));
            }
            _ => assert_eq!(exchanged.unwrap().source, Source::Stale, "{fault}"),
        }
        assert_eq!(house.introspections(), 1);
    }
}

#[tokio::test]
async fn old_knowledge_stands_in_for_as_long_as_allowed_and_is_asked_for_each_time() {
    let house = tolerant();
    let session = house.log_in("alice").await;
    house.iam.break_down(Some(silence()));
    house.clock.advance(just_before(LIVENESS + EXTRA));
    for questions in 1..4 {
        let exchanged = house.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, Source::Stale);
        assert_eq!(house.introspections(), questions);
    }
    house.clock.advance(MOMENT);
    let failed = house.granted(&session).await;
    assert_eq!(failed, Err(silence().into()));
    // An answer makes everything fresh again.
    house.iam.break_down(None);
    let exchanged = house.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, Source::Miss);
}

#[tokio::test]
async fn permissions_stand_in_no_longer_than_they_may_although_liveness_could() {
    let house = tolerant();
    let session = house.log_in("alice").await;
    house.clock.advance(just_before(PERMISSIONS + EXTRA));
    let now = house.gateway.now();
    let knowledge = &house.gateway.knowledge;
    let fingerprint = knowledge.fingerprint(&session.token, "alice");
    knowledge.learn(&fingerprint, now, None);
    house.iam.break_down(Some(silence()));
    let exchanged = house.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, Source::Stale);
    house.clock.advance(MOMENT);
    let failed = house.granted(&session).await;
    assert_eq!(failed, Err(silence().into()));
}

#[tokio::test]
async fn what_is_fresh_and_what_is_stale_stand_in_together() {
    // The liveness is too old, and the permissions are not: the user has come by another session.
    let house = tolerant();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    house.iam.permit("alice", "write");
    house.log_in("alice").await;
    house.iam.break_down(Some(silence()));
    let exchanged = house.exchange(&session, "read write").await.unwrap();
    assert_eq!(exchanged.source, Source::Stale);
    assert_eq!(exchanged.scope, "write");

    // The permissions are too old, and the liveness is not.
    let house = tolerant();
    let session = house.log_in("alice").await;
    house.clock.advance(PERMISSIONS);
    let knowledge = &house.gateway.knowledge;
    let fingerprint = knowledge.fingerprint(&session.token, "alice");
    knowledge.learn(&fingerprint, house.gateway.now(), None);
    house.iam.break_down(Some(silence()));
    let exchanged = house.exchange(&session, "read write").await.unwrap();
    assert_eq!(exchanged.source, Source::Stale);
    assert_eq!(exchanged.scope, "read write");

    // Of the one nothing is known at all.
    let stranger = house.replica();
    let failed = stranger.granted(&session).await;
    assert_eq!(failed, Err(silence().into()));
}

#[tokio::test]
async fn knowledge_that_grows_too_old_while_the_iam_is_silent_stands_in_no_more() {
    let house = tolerant();
    let session = house.log_in("alice").await;
    house.clock.advance(just_before(LIVENESS + EXTRA));
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchange = house.begin_exchange(&session);
    let call = calls.next().await;
    house.clock.advance(MOMENT);
    call.reply(Reply::Fault(silence()));
    assert_eq!(exchange.await.unwrap().err(), Some(silence().into()));
}

#[tokio::test]
async fn a_revocation_and_a_no_of_the_iam_win_over_old_knowledge() {
    let house = tolerant();
    let (one, other) = (house.log_in("alice").await, house.log_in("bob").await);
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchange = house.begin_exchange(&one);
    let call = calls.next().await;
    house.iam.break_down(Some(silence()));
    house.log_out(&one).await.unwrap_err();
    call.reply(Reply::Fault(silence()));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Revoked.into()));
    house.iam.let_go(Operation::Introspection);

    let no = Reply::Say(Introspection::Inactive);
    house.iam.script(Operation::Introspection, no);
    for _ in 0..2 {
        let refused = house.granted(&other).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()));
    }
}

#[tokio::test]
async fn a_wall_clock_set_back_leaves_nothing_that_could_stand_in() {
    let house = tolerant();
    let session = house.log_in("alice").await;
    house.iam.break_down(Some(silence()));
    house.set_back(Duration::from_secs(61));
    let failed = house.granted(&session).await;
    assert_eq!(failed, Err(silence().into()));
}
