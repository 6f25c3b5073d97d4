//! Ends of sessions that the IAM reports.

use std::time::Duration;

use std::sync::Arc;

use iam_adapters::Clock as _;
use iam_adapters::clock::ManualClock;
use jiff::Timestamp;

use super::test_gateway::{START, TestGateway, active, iam_parts, policy};
use crate::Keys;
use crate::error::{GatewayError, InvalidSession};
use crate::keys::{KeySet, SealingKey};
use crate::session;
use test_support::scripted_iam::ScriptedIam;

/// The IAM's id of a session.
fn upstream_id(gateway: &TestGateway, token: &str) -> String {
    let mut buffer = zeroize::Zeroizing::default();
    let opened = session::open(&gateway.inner.keys.sealing.key_set(), token, &mut buffer).unwrap();
    opened.usid.into_owned()
}

const ENDED: GatewayError = GatewayError::InvalidSession(InvalidSession::Ended);

#[tokio::test]
async fn session_that_the_iam_ended_gets_no_token_and_its_logout_makes_no_call() {
    let gateway = TestGateway::new();
    let (ended, other) = (gateway.log_in("alice").await, gateway.log_in("alice").await);
    let id = upstream_id(&gateway, &ended.token);
    gateway.end_upstream_session(&id);
    assert_eq!(gateway.granted(&ended).await, Err(ENDED));
    gateway.log_out(&ended).await.unwrap();
    assert_eq!(
        gateway
            .iam
            .calls(iam_adapters::resilient::Operation::Logout),
        0
    );
    assert!(gateway.granted(&other).await.is_ok());
    assert_eq!(gateway.introspections(), 0);
}

#[tokio::test]
async fn sessions_of_a_subject_end_up_to_the_given_time_and_no_others() {
    let gateway = TestGateway::new();
    let before = [gateway.log_in("alice").await, gateway.log_in("alice").await];
    let bob = gateway.log_in("bob").await;
    gateway.end_sessions_of("alice", START);
    gateway.clock.advance(Duration::from_secs(1));
    let after = gateway.log_in("alice").await;
    for session in &before {
        assert_eq!(gateway.granted(session).await, Err(ENDED));
    }
    assert!(gateway.granted(&after).await.is_ok());
    assert!(gateway.granted(&bob).await.is_ok());
}

#[tokio::test]
async fn empty_upstream_id_ends_no_session() {
    let gateway = TestGateway::new();
    gateway.end_upstream_session("");
    assert_eq!(gateway.inner.tables().revocations.count(), 0);
}

#[tokio::test]
async fn end_reported_during_an_introspection_refuses_the_exchange() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway
        .iam
        .hold(iam_adapters::resilient::Operation::Introspection);
    let (exchange, call) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.end_sessions_of("alice", START);
    call.reply(active("alice", "read write"));
    assert_eq!(exchange.await.unwrap().err(), Some(ENDED));
}

/// The sessions of a key end at the latest a session's lifetime after its successor began.
#[tokio::test]
async fn end_is_recorded_for_those_keys_only_that_may_have_sealed_a_live_session() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
    let key = |age: u8| {
        let first_use = i64::try_from(START).unwrap() - i64::from(age) * 7 * 86_400;
        let first_use = Timestamp::from_second(first_use).unwrap();
        let secret: Vec<u8> = (age..age + 32).collect();
        SealingKey::new(&secret, &format!("key-{age}"), first_use).unwrap()
    };
    let mut keys = Keys::ephemeral(clock.now()).unwrap();
    keys.sealing = KeySet::new((0..20).map(key).collect()).unwrap().into();
    let iam = Arc::new(ScriptedIam::default());
    let policy = policy();
    let iams = vec![iam_parts(iam.clone(), policy.iam)];
    let gateway = TestGateway::with_keys(iam, iams, clock, Arc::new(keys), policy.gateway);
    let revocations = &gateway.inner.tables().revocations;
    gateway.end_upstream_session("upstream");
    // The key of this second, and the one before it.
    assert_eq!(revocations.count(), 2);
    gateway.clock.advance(Duration::from_secs(2 * 86_400));
    gateway.end_upstream_session("another");
    assert_eq!(revocations.count(), 3);
}
