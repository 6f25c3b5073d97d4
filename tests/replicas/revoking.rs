//! Sessions that an operator revokes. The IAM is not called, so the other replicas receive it only through Redis.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock as _;
use iam_adapters::clock::SystemClock;
use mock_iam::ShiftedClock;
use serde_json::{Value, json};
use test_support::endpoints::REVOKE;
use test_support::gateway::TestGateway;

use crate::fixture::{ReplicaFixture, fixture, log_in, refuses, serves};
use crate::metrics::has_sent_all;

pub(crate) const TOKEN: &str = "operators-token-of-some-length";

/// A replica by a clock that runs, as that of Redis does.
async fn replica(fixture: &ReplicaFixture) -> TestGateway {
    replica_ahead(fixture, 0).await
}

/// A replica whose clock is this number of seconds ahead.
async fn replica_ahead(fixture: &ReplicaFixture, seconds: i64) -> TestGateway {
    let clock = ShiftedClock::new(Arc::new(SystemClock::default()));
    let (now, by) = (
        clock.now().unix,
        Duration::from_secs(seconds.unsigned_abs()),
    );
    let shifted = if seconds < 0 {
        now.saturating_sub(by)
    } else {
        now + by
    };
    clock.set(shifted).expect("a time after 1970");
    let gateway = fixture.gateway_by(&Arc::new(clock), &[("management.token", TOKEN)]);
    fixture.synchronized(&gateway).await;
    gateway
}

/// Revokes sessions; returns whether the other replicas have it.
pub(crate) async fn revoke(gateway: &TestGateway, body: &Value) -> String {
    let body = body.to_string();
    let answer = gateway.operate(REVOKE, Some(TOKEN), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let replication = answer.json()["replication"].as_str().map(str::to_owned);
    replication.expect("text")
}

#[tokio::test]
async fn sessions_revoked_at_one_replica_are_refused_at_the_others_and_at_one_that_starts_later() {
    for selector in ["session_id", "subject", "iam", "all"] {
        let Some(fixture) = fixture() else { return };
        let [one, other] = [replica(&fixture).await, replica(&fixture).await];
        // The replica that is called has never seen the session.
        let session = fixture.known_session(&[&other]).await;
        let value = match selector {
            "session_id" => json!(session.session_id),
            "subject" => json!(fixture.subject),
            "iam" => json!("mock"),
            _ => json!(true),
        };
        let replication = revoke(&one, &json!({ selector: value })).await;
        assert_eq!(replication, "delivered");
        refuses(&other, &session).await;
        assert!(!serves(&one, &session).await);
        let late = replica(&fixture).await;
        assert!(!serves(&late, &session).await);
        // Later logins are accepted everywhere, also in the same second.
        for gateway in [&one, &other, &late] {
            let later = log_in(gateway).await;
            for gateway in [&one, &other, &late] {
                assert!(serves(gateway, &later).await, "{selector}");
            }
        }
    }
}

#[tokio::test]
async fn revocation_ends_the_sessions_of_all_replicas_whose_clocks_are_five_minutes_apart() {
    for caller in 0..3 {
        let Some(fixture) = fixture() else { return };
        let mut replicas = Vec::new();
        for ahead in [-150, 0, 150] {
            replicas.push(replica_ahead(&fixture, ahead).await);
        }
        let mut sessions = Vec::new();
        for replica in &replicas {
            sessions.push(log_in(replica).await);
        }
        let called = &replicas[caller];
        let replication = revoke(called, &json!({ "all": true })).await;
        assert_eq!(replication, "delivered");
        for replica in &replicas {
            for session in &sessions {
                refuses(replica, session).await;
            }
        }
        for replica in &replicas {
            assert!(serves(called, &log_in(replica).await).await);
        }
    }
}

#[tokio::test]
async fn revocation_that_redis_refuses_is_pending() {
    let Some(fixture) = fixture() else { return };
    let one = replica(&fixture).await;
    fixture.redis.admin().run("REPLICAOF 127.0.0.1 1");
    for _ in 0..2 {
        assert_eq!(revoke(&one, &json!({ "all": true })).await, "pending");
    }
    fixture.redis.admin().run("REPLICAOF NO ONE");
    has_sent_all(&one).await;
    assert_eq!(revoke(&one, &json!({ "all": true })).await, "delivered");
}
