//! Replicas that come late, or were away for a while.

use crate::figures::{figure, has_told_all};
use crate::scene::{EMAIL, Scene, feels_the_end, log_out, serves, until};

#[tokio::test]
async fn a_replica_that_starts_later_knows_what_ended_before_without_asking_the_iam() {
    let Some(scene) = Scene::new() else { return };
    let [early] = scene.replicas().await;
    let living = scene.known_session(&[&early]).await;
    let mut ended = Vec::new();
    // More than one page of them.
    for _ in 0..520 {
        let session = crate::scene::log_in(&early).await;
        log_out(&early, &session).await;
        ended.push(session);
    }
    has_told_all(&early).await;
    let [late] = scene.replicas().await;
    for session in &ended {
        assert!(!serves(&late, session).await);
    }
    let asked = "iam_calls_total{operation=\"introspection\",outcome=\"ok\"}";
    assert_eq!(figure(&late, asked).await, 0);
    assert!(serves(&late, &living).await);
    assert_eq!(figure(&late, "revocations_received_total").await, 520);
}

#[tokio::test]
async fn a_listener_that_redis_dropped_comes_back_and_feels_what_it_missed() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    for _ in 0..20 {
        let session = scene.known_session(&[&one, &other]).await;
        scene.redis.admin().run("CLIENT KILL TYPE pubsub");
        log_out(&one, &session).await;
        feels_the_end(&other, &session).await;
    }
}

#[tokio::test]
async fn after_a_gap_nothing_is_believed_that_the_iam_said_before() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    let session = scene.known_session(&[&one, &other]).await;
    assert!(scene.directory.end_sessions_of(EMAIL).expect("known") > 0);
    // The control: it is still fresh.
    assert!(serves(&other, &session).await);
    scene.redis.admin().run("CLIENT KILL TYPE pubsub");
    feels_the_end(&other, &session).await;
}

#[tokio::test]
async fn what_could_not_be_told_is_told_when_redis_is_back() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let [one, other] = scene.replicas().await;
    let sessions = [
        scene.known_session(&[&one, &other]).await,
        scene.known_session(&[&one, &other]).await,
    ];
    scene.redis.kill();
    for session in &sessions {
        log_out(&one, session).await;
    }
    assert_eq!(figure(&one, "revocations_outbox").await, 2);
    scene.redis.start_again();
    has_told_all(&one).await;
    assert_eq!(scene.redis.admin().dump().len(), 2);
    let [late] = scene.replicas().await;
    for gateway in [&one, &other, &late] {
        for session in &sessions {
            feels_the_end(gateway, session).await;
        }
    }
    until("both are learned", async || {
        figure(&other, "revocations_received_total").await == 2
    })
    .await;
    assert_eq!(figure(&late, "revocations_received_total").await, 2);
}
