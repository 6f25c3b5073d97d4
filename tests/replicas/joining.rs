//! Replicas that come late, or were away for a while.

use crate::fixture::{EMAIL, ReplicaFixture, log_out, refuses, serves};
use crate::metrics::{has_received, has_sent_all};

#[tokio::test]
async fn a_replica_that_starts_later_knows_what_ended_before_without_asking_the_iam() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [early] = fixture.replicas().await;
    let living = fixture.known_session(&[&early]).await;
    let mut ended = Vec::new();
    // More than one page of them.
    for _ in 0..520 {
        let session = crate::fixture::log_in(&early).await;
        log_out(&early, &session).await;
        ended.push(session);
    }
    has_sent_all(&early).await;
    let [late] = fixture.replicas().await;
    for session in &ended {
        assert!(!serves(&late, session).await);
    }
    let asked = "iam_calls_total{operation=\"introspection\",outcome=\"ok\"}";
    assert_eq!(late.metric(asked, "").await, 0);
    assert!(serves(&late, &living).await);
    assert_eq!(late.metric("revocations_received_total", "").await, 520);
}

#[tokio::test]
async fn a_listener_that_redis_dropped_comes_back_and_feels_what_it_missed() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [one, other] = fixture.replicas().await;
    for round in 1..=20 {
        let session = fixture.known_session(&[&one, &other]).await;
        fixture.redis.admin().run("CLIENT KILL TYPE pubsub");
        log_out(&one, &session).await;
        // Not by asking the IAM, which it does after a gap.
        has_received(&other, round).await;
        assert!(!serves(&other, &session).await);
    }
}

#[tokio::test]
async fn after_a_gap_nothing_is_believed_that_the_iam_said_before() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    assert!(fixture.directory.end_sessions_of(EMAIL).expect("known") > 0);
    // The control: it is still fresh.
    assert!(serves(&other, &session).await);
    fixture.redis.admin().run("CLIENT KILL TYPE pubsub");
    refuses(&other, &session).await;
}

#[tokio::test]
async fn what_could_not_be_told_is_told_when_redis_is_back() {
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
    assert_eq!(one.metric("revocations_outbox", "").await, 2);
    fixture.redis.start_again();
    has_sent_all(&one).await;
    assert_eq!(fixture.redis.admin().dump().len(), 2);
    let [late] = fixture.replicas().await;
    for gateway in [&one, &other, &late] {
        for session in &sessions {
            refuses(gateway, session).await;
        }
    }
    has_received(&other, 2).await;
    has_received(&late, 2).await;
}
