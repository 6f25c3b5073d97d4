//! Logouts, with Redis there and without.

use std::time::Instant;

use crate::figures::{complains, figure, has_learned, has_told_all};
use crate::scene::{AT_ONCE, Scene, feels_the_end, log_out, serves};

#[tokio::test]
async fn a_logout_at_any_replica_is_felt_at_every_other_however_fresh_their_knowledge_is() {
    let Some(scene) = Scene::new() else { return };
    let replicas: [_; 3] = scene.replicas().await;
    let all: Vec<_> = replicas.iter().collect();
    let bystander = scene.known_session(&all).await;
    for round in 0..30 {
        let session = scene.known_session(&all).await;
        let asked = introspections(&all).await;
        log_out(all[round % 3], &session).await;
        assert!(!serves(all[round % 3], &session).await);
        for replica in &all {
            feels_the_end(replica, &session).await;
            // And for good.
            assert!(!serves(replica, &session).await);
            log_out(replica, &session).await;
        }
        assert_eq!(
            introspections(&all).await,
            asked,
            "nobody had to ask the IAM"
        );
    }
    for replica in all {
        assert!(serves(replica, &bystander).await);
    }
}

async fn introspections(gateways: &[&test_support::app::TestApp]) -> u64 {
    let mut count = 0;
    for gateway in gateways {
        let calls = "iam_calls_total{operation=\"introspection\",outcome=\"ok\"}";
        count += figure(gateway, calls).await;
    }
    count
}

#[tokio::test]
async fn without_redis_a_logout_is_felt_at_the_others_within_the_freshness() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    scene.redis.kill();
    let alone: [_; 3] = std::array::from_fn(|_| scene.lone_gateway(&[]));
    let out_of_reach: [_; 3] = std::array::from_fn(|_| scene.gateway(&AT_ONCE));
    for gateway in &out_of_reach {
        complains(gateway, &["revocations_unreachable"]).await;
    }
    for gateways in [alone, out_of_reach] {
        let all: Vec<_> = gateways.iter().collect();
        let session = scene.known_session(&all).await;
        log_out(all[0], &session).await;
        assert!(!serves(all[0], &session).await);
        // The control: nothing carries it, and knowledge is fresh.
        assert!(serves(all[1], &session).await && serves(all[2], &session).await);
        scene.outlive_freshness();
        assert!(!serves(all[1], &session).await && !serves(all[2], &session).await);
    }
}

#[tokio::test]
async fn sessions_that_the_iam_ends_are_not_told_each_replica_asks_by_itself() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    let session = scene.known_session(&[&one, &other]).await;
    scene
        .directory
        .end_sessions_of(crate::scene::EMAIL)
        .expect("known");
    scene.outlive_freshness();
    assert!(!serves(&one, &session).await);
    assert_eq!(scene.redis.admin().dump(), []);
    assert!(!serves(&other, &session).await);
}

/// Not a promise but a measurement: `cargo test --test replicas -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "measures, and tells nothing that could be right or wrong"]
async fn how_soon_a_logout_is_felt() {
    let Some(scene) = Scene::new() else { return };
    let replicas: [_; 3] = scene.replicas().await;
    let all: Vec<_> = replicas.iter().collect();
    let (mut answered, mut felt) = (Vec::new(), Vec::new());
    for round in 0..400 {
        let session = scene.known_session(&all).await;
        let began = Instant::now();
        log_out(all[round % 3], &session).await;
        answered.push(began.elapsed());
        let answer = Instant::now();
        for replica in &all {
            while serves(replica, &session).await {}
        }
        felt.push(answer.elapsed());
    }
    for (what, mut times) in [("logout answered", answered), ("then felt at all", felt)] {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        println!(
            "{what}: p50 {:?}, p99 {:?}, max {:?}",
            at(50),
            at(99),
            at(100)
        );
    }
}

/// How often Redis ran a command since it started.
fn calls(scene: &Scene, command: &str) -> u64 {
    let redis::Value::BulkString(text) = scene.redis.admin().run("INFO commandstats") else {
        panic!("INFO answers with text");
    };
    let line = std::str::from_utf8(&text)
        .expect("text")
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    let count = line.and_then(|line| line.split(',').next());
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn repeated_logouts_send_one_set_and_one_publish_to_redis() {
    let Some(scene) = Scene::new() else { return };
    let [one, other] = scene.replicas().await;
    let session = scene.known_session(&[&one, &other]).await;
    for _ in 0..50 {
        log_out(&one, &session).await;
    }
    has_learned(&other, 1).await;
    for _ in 0..50 {
        log_out(&other, &session).await;
        log_out(&one, &session).await;
    }
    for gateway in [&one, &other] {
        has_told_all(gateway).await;
    }
    assert_eq!((calls(&scene, "set"), calls(&scene, "publish")), (1, 1));
}

/// The IAM fails as well, so that the revocation is all that ends the victim's session elsewhere.
#[tokio::test]
async fn repeated_logouts_of_one_user_do_not_displace_the_pending_revocation_of_another() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let [one, other] = scene.replicas().await;
    let victim = scene.known_session(&[&one, &other]).await;
    let attacker = scene.known_session(&[&one, &other]).await;
    log_out(&one, &attacker).await;
    has_told_all(&one).await;
    scene.redis.kill();
    for gateway in [&one, &other] {
        complains(gateway, &["revocations_unreachable"]).await;
    }
    scene.break_logouts();
    let failed = one.log_out(&victim).await;
    assert_eq!(failed.status, 500, "{}", failed.told());
    for _ in 0..200 {
        log_out(&one, &attacker).await;
    }
    assert_eq!(figure(&one, "revocations_outbox").await, 1);
    scene.redis.start_again();
    feels_the_end(&other, &victim).await;
    has_told_all(&one).await;
    let [late] = scene.replicas().await;
    assert!(!serves(&late, &victim).await);
}
