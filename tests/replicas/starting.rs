//! A replica that starts, and what it may say before it knows what ended at the others.

use test_support::wait::until;

use crate::figures::{complains, complaints, has_told_all};

use crate::scene::{AT_ONCE, Scene, log_in, log_out, serves};

const CATCHING_UP: [&str; 1] = ["revocations_catching_up"];

/// The IAM does not know of the logout, so that Redis alone does.
#[tokio::test]
async fn starting_replica_gives_no_token_for_a_session_that_ended_elsewhere_while_redis_hangs() {
    let Some(scene) = Scene::new() else { return };
    let [early] = scene.replicas().await;
    let ended = scene.known_session(&[&early]).await;
    scene.break_logouts();
    assert_eq!(early.log_out(&ended).await.status, 500);
    has_told_all(&early).await;
    scene.redis.signal("STOP");
    let late = scene.gateway(&[("revocations.redis.catch_up_deadline", "10m")]);
    complains(&late, &CATCHING_UP).await;
    let refused = late.exchange(&ended, crate::scene::READ).await;
    refused.is_error(503, "temporarily_unavailable");
    assert!(!refused.header("retry-after").is_empty());
    // Logins and logouts work.
    let [session, other] = [log_in(&late).await, log_in(&late).await];
    log_out(&late, &other).await;
    let refused = late.exchange(&session, crate::scene::READ).await;
    refused.is_error(503, "temporarily_unavailable");
    assert_eq!(complaints(&late).await, CATCHING_UP);
    scene.redis.signal("CONT");
    scene.in_step(&late).await;
    assert!(serves(&late, &session).await);
    assert!(!serves(&late, &other).await && !serves(&late, &ended).await);
}

#[tokio::test]
async fn replica_that_never_finds_redis_serves_degraded_after_the_deadline() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let [early] = scene.replicas().await;
    let [ended, failed] = [log_in(&early).await, log_in(&early).await];
    log_out(&early, &ended).await;
    scene.break_logouts();
    assert_eq!(early.log_out(&failed).await.status, 500);
    has_told_all(&early).await;
    scene.redis.kill();
    let late = scene.gateway(&AT_ONCE);
    complains(&late, &["revocations_unreachable"]).await;
    // What the documentation says can be accepted then, and nothing else.
    assert!(!serves(&late, &ended).await);
    assert!(serves(&late, &failed).await);
}

#[tokio::test]
async fn replica_without_redis_in_its_settings_waits_for_nothing() {
    let Some(scene) = Scene::new() else { return };
    let alone = scene.lone_gateway(&[]);
    until("it is ready", async || complaints(&alone).await.is_empty()).await;
    let session = log_in(&alone).await;
    assert!(serves(&alone, &session).await);
}
