//! Logouts with and without Redis.

use std::time::Instant;

use crate::fixture::{ReplicaFixture, log_out, refuses, serves};

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
