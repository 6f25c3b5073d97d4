use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Introspection};

use super::house::{House, LIVENESS, active};
use super::scripted::Reply;
use crate::gateway::error::InvalidSession;

#[tokio::test]
async fn an_exchange_whose_question_is_under_way_while_the_session_is_logged_out_gets_no_token() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchange = house.begin_exchange(&session);
    let call = calls.next().await;
    house.log_out(&session).await.unwrap();
    call.reply(active("alice", "read write"));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
    // What came after the logout revives nothing.
    house.iam.let_go(Operation::Introspection);
    let refused = house.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
    assert_eq!(house.introspections(), 1);
}

#[tokio::test]
async fn nor_where_the_logout_failed_at_the_iam() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchange = house.begin_exchange(&session);
    let call = calls.next().await;
    let fault = IamError::Failed("502".to_owned());
    house.iam.script(Operation::Logout, Reply::Fault(fault));
    house.log_out(&session).await.unwrap_err();
    call.reply(active("alice", "read write"));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Revoked.into()));
}

#[tokio::test]
async fn nor_where_the_iam_told_another_exchange_that_the_session_is_over() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let early = house.begin_exchange(&session);
    let early_call = calls.next().await;
    house.clock.advance(LIVENESS);
    let late = house.begin_exchange(&session);
    let late_call = calls.next().await;
    late_call.reply(Reply::Say(Introspection::Inactive));
    let refused = late.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
    early_call.reply(active("alice", "read write"));
    let refused = early.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
}

#[tokio::test]
async fn the_word_that_a_session_is_over_is_final_and_is_not_asked_for_again() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.iam.end("secret-1");
    house.clock.advance(LIVENESS);
    for _ in 0..3 {
        let refused = house.granted(&session).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()));
        assert_eq!(house.introspections(), 1);
        house.clock.advance(LIVENESS);
    }
}

#[tokio::test]
async fn a_logout_tells_the_iam_also_where_it_called_the_session_over_before() {
    let house = House::new();
    let session = house.log_in("alice").await;
    // As while the account is disabled. Enabled again, its sessions are alive again.
    let no = Reply::Say(Introspection::Inactive);
    house.iam.script(Operation::Introspection, no);
    house.clock.advance(LIVENESS);
    house.granted(&session).await.unwrap_err();
    let replica = house.replica();
    assert!(replica.granted(&session).await.is_ok());
    house.log_out(&session).await.unwrap();
    assert!(house.iam.has_ended("secret-1"));
    replica.clock.advance(LIVENESS);
    let refused = replica.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Ended.into()));
}
