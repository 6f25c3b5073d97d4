//! A Redis that is not there, for whatever reason: nothing waits for it and nothing fails for it.

use test_support::app::TestApp;

use crate::figures::{complains, figure, has_learned, has_told_all};
use crate::scene::{AT_ONCE, Scene, feels_the_end, log_in, log_out, serves};

/// How many sessions end at each gateway where everything is tried.
const ENDS: u64 = 4;

/// All that gateways do, with sessions that they know and with such as they have to ask about.
async fn everything_works(gateways: [&TestApp; 2]) {
    for (here, there) in [(gateways[0], gateways[1]), (gateways[1], gateways[0])] {
        for _ in 0..ENDS {
            let session = log_in(here).await;
            assert!(serves(here, &session).await && serves(there, &session).await);
            log_out(here, &session).await;
            assert!(!serves(here, &session).await);
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
    let gateways = [(); 2].map(|()| scene.gateway(&AT_ONCE));
    let [one, other] = &gateways;
    complains(one, &UNREACHABLE).await;
    assert_eq!(figure(one, "revocations_in_step").await, 0);
    everything_works([one, other]).await;
    scene.redis.start_again();
    for gateway in &gateways {
        scene.in_step(gateway).await;
        assert_eq!(figure(gateway, "revocations_in_step").await, 1);
    }
    has_learned(one, ENDS).await;
    let session = scene.known_session(&[one, other]).await;
    log_out(one, &session).await;
    feels_the_end(other, &session).await;
    has_learned(other, ENDS + 1).await;
}

#[tokio::test]
async fn a_redis_that_dies_is_missed_and_one_that_returns_is_found() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let [one, other] = scene.replicas().await;
    for round in 1..=3 {
        scene.redis.kill();
        for gateway in [&one, &other] {
            complains(gateway, &UNREACHABLE).await;
        }
        everything_works([&one, &other]).await;
        scene.redis.start_again();
        for gateway in [&one, &other] {
            scene.in_step(gateway).await;
            has_told_all(gateway).await;
        }
        let session = scene.known_session(&[&one, &other]).await;
        log_out(&other, &session).await;
        feels_the_end(&one, &session).await;
        has_learned(&one, round * (ENDS + 1)).await;
        has_learned(&other, round * ENDS).await;
    }
}

#[tokio::test]
async fn a_redis_that_hangs_is_noticed_and_holds_nobody_up() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    let session = scene.known_session(&[&one, &other]).await;
    scene.redis.signal("STOP");
    log_out(&one, &session).await;
    everything_works([&one, &other]).await;
    for gateway in [&one, &other] {
        complains(gateway, &UNREACHABLE).await;
    }
    everything_works([&one, &other]).await;
    // The control: knowledge does not age here by itself.
    assert!(serves(&other, &session).await);
    scene.redis.signal("CONT");
    // Not by asking the IAM, which it does after a gap.
    has_learned(&one, 2 * ENDS).await;
    has_learned(&other, 2 * ENDS + 1).await;
    assert!(!serves(&other, &session).await);
    for gateway in [&one, &other] {
        scene.in_step(gateway).await;
        has_told_all(gateway).await;
    }
}

#[tokio::test]
async fn a_redis_that_hangs_is_noticed_also_by_whoever_has_nothing_to_tell() {
    let Some(scene) = Scene::new() else { return };
    let [idle] = scene.replicas().await;
    for _ in 0..2 {
        scene.redis.signal("STOP");
        complains(&idle, &UNREACHABLE).await;
        scene.redis.signal("CONT");
        scene.in_step(&idle).await;
    }
}

#[tokio::test]
async fn a_redis_that_sleeps_for_a_while_holds_nobody_up() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    let session = scene.known_session(&[&one, &other]).await;
    let mut admin = scene.redis.admin();
    let asleep = std::thread::spawn(move || admin.run("DEBUG SLEEP 5"));
    everything_works([&one, &other]).await;
    log_out(&one, &session).await;
    asleep.join().expect("awake again");
    has_learned(&other, ENDS + 1).await;
    assert!(!serves(&other, &session).await);
}
