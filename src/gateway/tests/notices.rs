//! What the IAM tells unasked.

use std::time::Duration;

use super::house::{House, LIVENESS, START, active};
use crate::gateway::error::{GatewayError, InvalidSession};
use crate::gateway::session;

/// The IAM's id of the session's own session there.
fn upstream_id(house: &House, token: &str) -> String {
    let mut buffer = zeroize::Zeroizing::default();
    let opened = session::open(&house.gateway.keys.sealing.key_set(), token, &mut buffer).unwrap();
    opened.usid.into_owned()
}

const OVER: GatewayError = GatewayError::InvalidSession(InvalidSession::Ended);

#[tokio::test]
async fn a_session_that_the_iam_calls_over_gets_no_token_and_its_logout_asks_nobody() {
    let house = House::new();
    let (over, other) = (house.log_in("alice").await, house.log_in("alice").await);
    let id = upstream_id(&house, &over.token);
    house.gateway.session_ends().end_upstream_session(&id);
    assert_eq!(house.granted(&over).await, Err(OVER));
    house.log_out(&over).await.unwrap();
    assert_eq!(
        house.iam.calls(iam_adapters::resilient::Operation::Logout),
        0
    );
    assert!(house.granted(&other).await.is_ok());
    assert_eq!(house.introspections(), 0);
}

#[tokio::test]
async fn all_sessions_of_a_subject_are_over_up_to_the_moment_and_no_other() {
    let house = House::new();
    let before = [house.log_in("alice").await, house.log_in("alice").await];
    let bob = house.log_in("bob").await;
    house.gateway.session_ends().end_sessions_of("alice", START);
    house.clock.advance(Duration::from_secs(1));
    let after = house.log_in("alice").await;
    for session in &before {
        assert_eq!(house.granted(session).await, Err(OVER));
    }
    assert!(house.granted(&after).await.is_ok());
    assert!(house.granted(&bob).await.is_ok());
}

#[tokio::test]
async fn a_session_without_an_id_at_the_iam_is_not_ended_by_a_notice_without_one() {
    let house = House::new();
    house.gateway.session_ends().end_upstream_session("");
    assert_eq!(house.gateway.session_ends().revocations().count(), 0);
}

#[tokio::test]
async fn a_notice_that_comes_while_the_iam_is_asked_wins() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house
        .iam
        .hold(iam_adapters::resilient::Operation::Introspection);
    let exchange = house.begin_exchange(&session);
    let call = calls.next().await;
    house.gateway.session_ends().end_sessions_of("alice", START);
    call.reply(active("alice", "read write"));
    assert_eq!(exchange.await.unwrap().err(), Some(OVER));
}
