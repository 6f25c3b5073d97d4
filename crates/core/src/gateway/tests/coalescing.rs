use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use iam_adapters::IamError;
use iam_adapters::resilient::Operation;
use iam_adapters::single_flight::LostTask;

use super::login::faults;
use super::test_gateway::{LIVENESS, MILLISECOND, PERMISSIONS, TestGateway, just_before};
use crate::error::{GatewayError, Internal};
use crate::results::DataSource;
use test_support::scripted_iam::Reply;

const MANY: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_exchanges_of_one_session_with_a_cold_cache_introspect_once() {
    let (gateway, session) = TestGateway::with_session().await;
    let cold = gateway.replica();
    let mut calls = cold.iam.hold(Operation::Introspection);
    let in_flight: Vec<_> = (0..MANY).map(|_| cold.spawn_exchange(&session)).collect();
    calls.next().await.reply(Reply::Model);
    cold.iam.release(Operation::Introspection);
    let mut sources = HashMap::new();
    for exchange in in_flight {
        let exchanged = exchange.await.unwrap().unwrap();
        assert_eq!(exchanged.scope, "read write");
        *sources.entry(exchanged.source).or_insert(0) += 1;
    }
    assert_eq!(cold.introspections(), 1);
    assert_eq!(sources[&DataSource::Miss], 1);
}

#[tokio::test]
async fn exchanges_that_share_an_introspection_share_its_fault() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let in_flight: Vec<_> = (0..MANY)
        .map(|_| gateway.spawn_exchange(&session))
        .collect();
    let call = calls.next().await;
    let fault = IamError::Failed("502".to_owned());
    call.reply(Reply::Fault(fault.clone()));
    for exchange in in_flight {
        let failed = exchange.await.unwrap().err();
        assert_eq!(failed, Some(GatewayError::Unavailable(fault.clone())));
    }
    assert_eq!(gateway.introspections(), 1);
}

/// Clients that repeat an exchange must not use up the calls to an IAM that fails for their session.
#[tokio::test]
async fn fault_that_may_be_of_one_session_is_held_for_a_second() {
    // Without a decision of the policy server, the IAM was called too.
    let undecided = [
        IamError::Unreachable("refused".into()),
        IamError::Failed("500".to_owned()),
    ];
    let undecided = undecided.map(|fault| IamError::PermissionSource(Box::new(fault)));
    for fault in faults().into_iter().chain(undecided) {
        let (gateway, session) = TestGateway::with_session().await;
        gateway.clock.advance(PERMISSIONS);
        gateway.iam.set_outage(Some(fault.clone()));
        for _ in 0..10 {
            let failed = gateway.granted(&session).await;
            assert_eq!(failed, Err(GatewayError::from(fault.clone())));
        }
        let is_held = !matches!(
            fault,
            IamError::Unreachable(_) | IamError::Saturated | IamError::CircuitOpen
        );
        let calls = if is_held { 1 } else { 10 };
        assert_eq!(gateway.introspections(), calls, "{fault}");
        gateway.iam.set_outage(None);
        gateway.clock.advance(just_before(Duration::from_secs(1)));
        assert_eq!(gateway.granted(&session).await.is_err(), is_held, "{fault}");
        gateway.clock.advance(MILLISECOND);
        assert_eq!(gateway.granted(&session).await.unwrap(), "read write");
    }
}

#[tokio::test]
async fn held_fault_of_one_session_is_not_that_of_another_one() {
    let gateway = TestGateway::new();
    let (one, other) = (gateway.log_in("alice").await, gateway.log_in("alice").await);
    gateway.clock.advance(LIVENESS);
    let fault = IamError::Failed("500".to_owned());
    gateway
        .iam
        .script(Operation::Introspection, Reply::Fault(fault.clone()));
    for _ in 0..2 {
        let failed = gateway.granted(&one).await;
        assert_eq!(failed, Err(fault.clone().into()));
        assert_eq!(gateway.granted(&other).await.unwrap(), "read write");
    }
    assert_eq!(gateway.introspections(), 2);
}

#[tokio::test]
async fn source_of_an_exchange_is_miss_coalesced_or_hit() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (first, call) = gateway.exchange_in_flight(&session, &mut calls).await;
    let mut second = Box::pin(gateway.exchange(&session, "read"));
    assert!(second.as_mut().now_or_never().is_none());
    call.reply(Reply::Model);
    assert_eq!(first.await.unwrap().unwrap().source, DataSource::Miss);
    assert_eq!(second.await.unwrap().source, DataSource::Coalesced);
    let third = gateway.exchange(&session, "read").await.unwrap();
    assert_eq!(third.source, DataSource::Hit);
    assert_eq!(gateway.introspections(), 1);
}

#[tokio::test]
async fn client_that_disconnects_neither_cancels_nor_repeats_the_introspection() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    for _ in 0..10 {
        let mut disconnected = Box::pin(gateway.exchange(&session, "read"));
        assert!(disconnected.as_mut().now_or_never().is_none());
    }
    let call = calls.next().await;
    let mut connected = Box::pin(gateway.exchange(&session, "read"));
    assert!(connected.as_mut().now_or_never().is_none());
    call.reply(Reply::Model);
    assert_eq!(connected.await.unwrap().scope, "read");
    assert_eq!(gateway.introspections(), 1);
}

#[tokio::test]
async fn each_session_has_its_own_introspection() {
    let gateway = TestGateway::new();
    let (alice, bob) = (gateway.log_in("alice").await, gateway.log_in("bob").await);
    gateway.clock.advance(LIVENESS);
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let exchanges = [gateway.spawn_exchange(&alice), gateway.spawn_exchange(&bob)];
    for _ in 0..2 {
        calls.next().await.reply(Reply::Model);
    }
    let [alice, bob] = exchanges;
    assert_eq!(alice.await.unwrap().unwrap().scope, "read write");
    assert_eq!(bob.await.unwrap().unwrap().scope, "read");
}

#[tokio::test]
async fn introspection_older_than_the_freshness_is_not_joined() {
    for (later, introspections) in [(just_before(LIVENESS), 1), (LIVENESS, 2)] {
        let (gateway, session) = TestGateway::with_stale_session().await;
        let mut calls = gateway.iam.hold(Operation::Introspection);
        let (first, first_call) = gateway.exchange_in_flight(&session, &mut calls).await;
        gateway.clock.advance(later);
        let mut second = Box::pin(gateway.exchange(&session, "read"));
        assert!(second.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
        assert_eq!(gateway.introspections(), introspections);
        if introspections == 2 {
            calls.next().await.reply(Reply::Model);
            second.await.unwrap();
            // Too old to decide, so there is one more call.
            first_call.reply(Reply::Model);
            calls.next().await.reply(Reply::Model);
        } else {
            first_call.reply(Reply::Model);
            second.await.unwrap();
        }
        first.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn end_of_an_older_introspection_leaves_the_newer_one_joinable() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (older, older_call) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.clock.advance(LIVENESS);
    let (newer, newer_call) = gateway.exchange_in_flight(&session, &mut calls).await;
    older_call.reply(Reply::Model);
    // Too old to decide, so its exchange joins the newer one.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let mut third = Box::pin(gateway.exchange(&session, "read"));
    assert!(third.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert_eq!(gateway.introspections(), 2);
    newer_call.reply(Reply::Model);
    newer.await.unwrap().unwrap();
    for joined in [older.await.unwrap(), third.await] {
        assert_eq!(joined.unwrap().source, DataSource::Coalesced);
    }
}

#[tokio::test]
async fn panic_of_the_adapter_fails_only_its_own_exchange() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    for _ in 0..3 {
        gateway.iam.script(Operation::Introspection, Reply::Panic);
        let failed = gateway.granted(&session).await;
        assert_eq!(failed, Err(Internal::LostTask(LostTask).into()));
    }
    assert_eq!(gateway.granted(&session).await.unwrap(), "read write");
}
