//! A Redis that is not there, for whatever reason: nothing waits for it and nothing fails for it.

use crate::app::TestApp;
use crate::figures::{complains, figure, has_told_all};
use crate::scene::{Scene, feels_the_end, log_in, log_out, serves};

/// Everything that a gateway does, several times over.
async fn everything_works(scene: &Scene, gateways: &[&TestApp]) {
    for gateway in gateways {
        for _ in 0..5 {
            let session = log_in(gateway).await;
            assert!(serves(gateway, &session).await);
            scene.outlive_freshness();
            assert!(serves(gateway, &session).await);
            log_out(gateway, &session).await;
            assert!(!serves(gateway, &session).await);
        }
    }
}

const UNREACHABLE: [&str; 1] = ["revocations_unreachable"];

#[tokio::test]
async fn a_redis_that_comes_after_the_gateways_is_found() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    scene.redis.kill();
    let gateways = [scene.gateway(&[]), scene.gateway(&[])];
    let [one, other] = &gateways;
    complains(one, &UNREACHABLE).await;
    assert_eq!(figure(one, "revocations_in_step").await, 0);
    everything_works(&scene, &[one, other]).await;
    scene.redis.start_again();
    for gateway in &gateways {
        scene.in_step(gateway).await;
        assert_eq!(figure(gateway, "revocations_in_step").await, 1);
    }
    let session = scene.known_session(&[one, other]).await;
    log_out(one, &session).await;
    feels_the_end(other, &session).await;
}

#[tokio::test]
async fn a_redis_that_dies_is_missed_and_one_that_returns_is_found() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let [one, other] = scene.replicas().await;
    for _ in 0..3 {
        scene.redis.kill();
        for gateway in [&one, &other] {
            complains(gateway, &UNREACHABLE).await;
        }
        everything_works(&scene, &[&one, &other]).await;
        scene.redis.start_again();
        for gateway in [&one, &other] {
            scene.in_step(gateway).await;
            has_told_all(gateway).await;
        }
        let session = scene.known_session(&[&one, &other]).await;
        log_out(&other, &session).await;
        feels_the_end(&one, &session).await;
    }
}

#[tokio::test]
async fn a_redis_that_hangs_is_noticed_and_holds_nobody_up() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    let session = scene.known_session(&[&one, &other]).await;
    scene.redis.signal("STOP");
    log_out(&one, &session).await;
    everything_works(&scene, &[&one, &other]).await;
    for gateway in [&one, &other] {
        complains(gateway, &UNREACHABLE).await;
    }
    everything_works(&scene, &[&one, &other]).await;
    scene.redis.signal("CONT");
    feels_the_end(&other, &session).await;
    for gateway in [&one, &other] {
        scene.in_step(gateway).await;
        has_told_all(gateway).await;
    }
}

#[tokio::test]
async fn a_redis_that_sleeps_for_a_while_holds_nobody_up() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    let session = scene.known_session(&[&one, &other]).await;
    let mut admin = scene.redis.admin();
    let asleep = std::thread::spawn(move || admin.run("DEBUG SLEEP 5"));
    everything_works(&scene, &[&one, &other]).await;
    log_out(&one, &session).await;
    asleep.join().expect("awake again");
    feels_the_end(&other, &session).await;
}
