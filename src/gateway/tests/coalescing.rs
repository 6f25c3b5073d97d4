use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use iam_adapters::IamError;
use iam_adapters::resilient::Operation;

use super::house::{House, LIVENESS, just_before};
use super::scripted::Reply;
use crate::gateway::error::{GatewayError, Internal};
use crate::gateway::knowledge::Source;

const MANY: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_exchanges_of_one_session_on_a_cold_cache_ask_once_and_all_succeed() {
    let house = House::new();
    let session = house.log_in("alice").await;
    let cold = house.replica();
    let mut calls = cold.iam.hold(Operation::Introspection);
    let under_way: Vec<_> = (0..MANY).map(|_| cold.begin_exchange(&session)).collect();
    calls.next().await.reply(Reply::Model);
    cold.iam.let_go(Operation::Introspection);
    let mut sources = HashMap::new();
    for exchange in under_way {
        let exchanged = exchange.await.unwrap().unwrap();
        assert_eq!(exchanged.scope, "read write");
        *sources.entry(exchanged.source).or_insert(0) += 1;
    }
    assert_eq!(cold.introspections(), 1);
    assert_eq!(sources[&Source::Miss], 1);
}

#[tokio::test]
async fn all_that_wait_for_one_question_share_its_fault_and_the_next_exchange_asks_again() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let under_way: Vec<_> = (0..MANY).map(|_| house.begin_exchange(&session)).collect();
    let call = calls.next().await;
    let fault = IamError::Failed("502".to_owned());
    call.reply(Reply::Fault(fault.clone()));
    for exchange in under_way {
        let failed = exchange.await.unwrap().err();
        assert_eq!(failed, Some(GatewayError::Unavailable(fault.clone())));
    }
    assert_eq!(house.introspections(), 1);
    house.iam.let_go(Operation::Introspection);
    assert_eq!(house.granted(&session).await.unwrap(), "read write");
    assert_eq!(house.introspections(), 2);
}

#[tokio::test]
async fn an_exchange_says_whether_it_asked_or_waited_or_knew() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let first = house.begin_exchange(&session);
    let call = calls.next().await;
    let mut second = Box::pin(house.exchange(&session, "read"));
    assert!(second.as_mut().now_or_never().is_none());
    call.reply(Reply::Model);
    assert_eq!(first.await.unwrap().unwrap().source, Source::Miss);
    assert_eq!(second.await.unwrap().source, Source::Coalesced);
    let third = house.exchange(&session, "read").await.unwrap();
    assert_eq!(third.source, Source::Hit);
    assert_eq!(house.introspections(), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_neither_stops_the_question_nor_repeats_it() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    for _ in 0..10 {
        let mut hung_up = Box::pin(house.exchange(&session, "read"));
        assert!(hung_up.as_mut().now_or_never().is_none());
    }
    let call = calls.next().await;
    let mut patient = Box::pin(house.exchange(&session, "read"));
    assert!(patient.as_mut().now_or_never().is_none());
    call.reply(Reply::Model);
    assert_eq!(patient.await.unwrap().scope, "read");
    assert_eq!(house.introspections(), 1);
}

#[tokio::test]
async fn two_sessions_are_asked_about_separately() {
    let house = House::new();
    let (alice, bob) = (house.log_in("alice").await, house.log_in("bob").await);
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchanges = [house.begin_exchange(&alice), house.begin_exchange(&bob)];
    for _ in 0..2 {
        calls.next().await.reply(Reply::Model);
    }
    let [alice, bob] = exchanges;
    assert_eq!(alice.await.unwrap().unwrap().scope, "read write");
    assert_eq!(bob.await.unwrap().unwrap().scope, "read");
}

#[tokio::test]
async fn nobody_waits_for_a_question_that_is_as_old_as_knowledge_may_be() {
    for (later, questions) in [(just_before(LIVENESS), 1), (LIVENESS, 2)] {
        let house = House::new();
        let session = house.log_in("alice").await;
        house.clock.advance(LIVENESS);
        let mut calls = house.iam.hold(Operation::Introspection);
        let first = house.begin_exchange(&session);
        let first_call = calls.next().await;
        house.clock.advance(later);
        let mut second = Box::pin(house.exchange(&session, "read"));
        assert!(second.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
        assert_eq!(house.introspections(), questions);
        if questions == 2 {
            calls.next().await.reply(Reply::Model);
            second.await.unwrap();
            first_call.reply(Reply::Model);
        } else {
            first_call.reply(Reply::Model);
            second.await.unwrap();
        }
        first.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_older_question_that_is_answered_leaves_the_newer_one_to_be_waited_for() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let older = house.begin_exchange(&session);
    let older_call = calls.next().await;
    house.clock.advance(LIVENESS);
    let newer = house.begin_exchange(&session);
    let newer_call = calls.next().await;
    older_call.reply(Reply::Model);
    older.await.unwrap().unwrap();
    let mut third = Box::pin(house.exchange(&session, "read"));
    assert!(third.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert_eq!(house.introspections(), 2);
    newer_call.reply(Reply::Model);
    newer.await.unwrap().unwrap();
    assert_eq!(third.await.unwrap().source, Source::Coalesced);
}

#[tokio::test]
async fn a_panic_in_the_adapter_fails_its_exchange_and_not_the_next() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    for _ in 0..3 {
        house.iam.script(Operation::Introspection, Reply::Panic);
        let failed = house.granted(&session).await;
        assert_eq!(failed, Err(Internal::LostTask.into()));
    }
    assert_eq!(house.granted(&session).await.unwrap(), "read write");
    house.clock.advance(Duration::from_secs(1));
    house.iam.script(Operation::Logout, Reply::Panic);
    assert_eq!(
        house.log_out(&session).await,
        Err(Internal::LostTask.into())
    );
    house.log_out(&session).await.unwrap();
}
