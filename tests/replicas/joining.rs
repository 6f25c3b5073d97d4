//! Replicas that start late, or were disconnected for a while.

use crate::fixture::{EMAIL, fixture, log_in, log_out, refuses, serves};
use crate::metrics::{has_received, has_sent_all, introspections};
use test_support::redis_server::STREAM;

#[tokio::test]
async fn new_replica_has_earlier_revocations_without_calling_the_iam() {
    let Some(fixture) = fixture() else { return };
    // A page of other entries: those of the revocations are in the next one.
    let script = "for _ = 1, 1000 do redis.call('XADD', KEYS[1], '*', 'r', 'x') end";
    (fixture.redis.admin()).words(&["EVAL", script, "1", STREAM]);
    let [early] = fixture.replicas().await;
    let active = fixture.known_session(&[&early]).await;
    let mut ended = Vec::new();
    for _ in 0..20 {
        let session = log_in(&early).await;
        log_out(&early, &session).await;
        ended.push(session);
    }
    has_sent_all(&early).await;
    let [late] = fixture.replicas().await;
    for session in &ended {
        assert!(!serves(&late, session).await);
    }
    assert_eq!(introspections(&late).await, 0);
    assert!(serves(&late, &active).await);
    assert_eq!(late.metric("revocations_received_total", "").await, 20);
}

#[tokio::test]
async fn replica_disconnected_by_redis_reconnects_and_receives_missed_revocations() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    for round in 1..=5 {
        let session = fixture.known_session(&[&one, &other]).await;
        fixture.redis.admin().disconnect_all();
        log_out(&one, &session).await;
        // Not by an introspection, which it makes after a gap.
        has_received(&other, round).await;
        assert!(!serves(&other, &session).await);
    }
}

#[tokio::test]
async fn replica_distrusts_cached_data_after_a_gap() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    assert!(fixture.directory.end_sessions_of(EMAIL).expect("known") > 0);
    // The control: its cached data is still fresh.
    assert!(serves(&other, &session).await);
    fixture.redis.admin().disconnect_all();
    refuses(&other, &session).await;
}

#[tokio::test]
async fn pending_revocations_are_sent_when_redis_returns() {
    let Some(mut fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let sessions = [
        fixture.known_session(&[&one, &other]).await,
        fixture.known_session(&[&one, &other]).await,
    ];
    fixture.redis.kill();
    for session in &sessions {
        log_out(&one, session).await;
    }
    assert_eq!(one.metric("revocations_pending", "").await, 2);
    fixture.redis.start_again();
    has_sent_all(&one).await;
    assert_eq!(fixture.redis.admin().revocations().len(), 2);
    let [late] = fixture.replicas().await;
    for gateway in [&one, &other, &late] {
        for session in &sessions {
            refuses(gateway, session).await;
        }
    }
    has_received(&other, 2).await;
    has_received(&late, 2).await;
}
