//! Logouts with and without Redis.

use std::time::Instant;

use crate::fixture::{AT_ONCE, ReplicaFixture, log_out, refuses, serves};
use crate::metrics::{has_received, has_sent_all};
use crate::server::PREFIX;

#[tokio::test]
async fn logout_at_one_replica_takes_effect_at_all_others_despite_fresh_data() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let replicas: [_; 3] = fixture.replicas().await;
    let all: Vec<_> = replicas.iter().collect();
    let other = fixture.known_session(&all).await;
    for round in 0..30 {
        let session = fixture.known_session(&all).await;
        let calls = introspections(&all).await;
        log_out(all[round % 3], &session).await;
        assert!(!serves(all[round % 3], &session).await);
        for replica in &all {
            refuses(replica, &session).await;
            // The revocation is kept.
            assert!(!serves(replica, &session).await);
            log_out(replica, &session).await;
        }
        assert_eq!(
            introspections(&all).await,
            calls,
            "no introspection is needed"
        );
    }
    for replica in all {
        assert!(serves(replica, &other).await);
    }
}

async fn introspections(gateways: &[&test_support::gateway::TestGateway]) -> u64 {
    let mut count = 0;
    for gateway in gateways {
        let calls = "operation=\"introspection\",outcome=\"ok\"";
        count += gateway.metric("iam_calls_total", calls).await;
    }
    count
}

#[tokio::test]
async fn without_redis_a_logout_takes_effect_at_other_replicas_within_the_freshness() {
    let Some(mut fixture) = ReplicaFixture::new() else {
        return;
    };
    fixture.redis.kill();
    let alone: [_; 3] = std::array::from_fn(|_| fixture.lone_gateway(&[]));
    let out_of_reach: [_; 3] = std::array::from_fn(|_| fixture.gateway(&AT_ONCE));
    for gateway in &out_of_reach {
        gateway
            .wait_for_readiness("degraded", &["revocations_unreachable"])
            .await;
    }
    for gateways in [alone, out_of_reach] {
        let all: Vec<_> = gateways.iter().collect();
        let session = fixture.known_session(&all).await;
        log_out(all[0], &session).await;
        assert!(!serves(all[0], &session).await);
        // The control: no revocation was sent, and cached data is fresh.
        assert!(serves(all[1], &session).await && serves(all[2], &session).await);
        fixture.outlive_freshness();
        assert!(!serves(all[1], &session).await && !serves(all[2], &session).await);
    }
}

#[tokio::test]
async fn session_ended_by_the_iam_is_not_sent_to_other_replicas() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    fixture
        .directory
        .end_sessions_of(crate::fixture::EMAIL)
        .expect("known");
    fixture.outlive_freshness();
    assert!(!serves(&one, &session).await);
    assert_eq!(fixture.redis.admin().revocations().len(), 0);
    assert!(!serves(&other, &session).await);
}

/// A measurement: `cargo test --test replicas -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement without an assertion"]
async fn measure_the_delay_of_a_logout_at_other_replicas() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let replicas: [_; 3] = fixture.replicas().await;
    let all: Vec<_> = replicas.iter().collect();
    let (mut answered, mut felt) = (Vec::new(), Vec::new());
    for round in 0..400 {
        let session = fixture.known_session(&all).await;
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

/// The number of calls of a command in Redis since its start.
fn calls(fixture: &ReplicaFixture, command: &str) -> u64 {
    let redis::Value::BulkString(text) = fixture.redis.admin().run("INFO commandstats") else {
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
async fn repeated_logouts_add_one_entry_to_the_stream() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    for _ in 0..50 {
        log_out(&one, &session).await;
    }
    has_received(&other, 1).await;
    for _ in 0..50 {
        log_out(&other, &session).await;
        log_out(&one, &session).await;
    }
    for gateway in [&one, &other] {
        has_sent_all(gateway).await;
    }
    // The login made a network known.
    let mut admin = fixture.redis.admin();
    let known_networks = admin.entries(&format!("{PREFIX}:logins:networks")).len();
    assert_eq!(admin.revocations().len(), 1);
    assert_eq!(calls(&fixture, "xadd"), 1 + known_networks as u64);
}

/// The IAM fails as well, so only the revocation ends the victim's session at other replicas.
#[tokio::test]
async fn repeated_logouts_of_one_user_do_not_displace_the_pending_revocation_of_another() {
    let Some(mut fixture) = ReplicaFixture::new() else {
        return;
    };
    let [one, other] = fixture.replicas().await;
    let victim = fixture.known_session(&[&one, &other]).await;
    let attacker = fixture.known_session(&[&one, &other]).await;
    log_out(&one, &attacker).await;
    has_sent_all(&one).await;
    fixture.redis.kill();
    for gateway in [&one, &other] {
        gateway
            .wait_for_readiness("degraded", &["revocations_unreachable"])
            .await;
    }
    fixture.break_logouts();
    let failed = one.log_out(&victim).await;
    assert_eq!(failed.status, 500, "{}", failed.text());
    for _ in 0..200 {
        log_out(&one, &attacker).await;
    }
    assert_eq!(one.metric("revocations_pending", "").await, 1);
    fixture.redis.start_again();
    refuses(&other, &victim).await;
    has_sent_all(&one).await;
    let [late] = fixture.replicas().await;
    assert!(!serves(&late, &victim).await);
}
