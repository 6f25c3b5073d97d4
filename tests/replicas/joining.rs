//! Replicas that start late, or were disconnected for a while.

use crate::fixture::{EMAIL, ReplicaFixture, log_out, refuses, serves};
use crate::metrics::{has_received, has_sent_all};

#[tokio::test]
async fn new_replica_has_earlier_revocations_without_calling_the_iam() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [early] = fixture.replicas().await;
    let active = fixture.known_session(&[&early]).await;
    let mut ended = Vec::new();
    // More than one page.
    for _ in 0..1_020 {
        let session = crate::fixture::log_in(&early).await;
        log_out(&early, &session).await;
        ended.push(session);
    }
    has_sent_all(&early).await;
    let [late] = fixture.replicas().await;
    for session in &ended {
        assert!(!serves(&late, session).await);
    }
    let calls = "operation=\"introspection\",outcome=\"ok\"";
    assert_eq!(late.metric("iam_calls_total", calls).await, 0);
    assert!(serves(&late, &active).await);
    assert_eq!(late.metric("revocations_received_total", "").await, 1_020);
}

#[tokio::test]
async fn replica_disconnected_by_redis_reconnects_and_receives_missed_revocations() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [one, other] = fixture.replicas().await;
    for round in 1..=20 {
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
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
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
    let Some(mut fixture) = ReplicaFixture::new() else {
        return;
    };
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
