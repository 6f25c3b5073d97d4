//! A replica that starts, and what it does before it has caught up.

use crate::metrics::has_sent_all;

use crate::fixture::{AT_ONCE, fixture, log_in, log_out, serves};

const CATCHING_UP: [&str; 1] = ["revocations_catching_up"];

/// The IAM has not received the logout; only Redis has the revocation.
#[tokio::test]
async fn starting_replica_issues_no_token_for_a_session_revoked_elsewhere_while_redis_hangs() {
    let Some(fixture) = fixture() else { return };
    let [early] = fixture.replicas().await;
    let ended = fixture.known_session(&[&early]).await;
    fixture.break_logouts();
    assert_eq!(early.log_out(&ended).await.status, 500);
    has_sent_all(&early).await;
    fixture.redis.signal("STOP");
    let late = fixture.gateway(&[("redis.catch_up_deadline", "10m")]);
    late.wait_for_readiness("not_ready", &CATCHING_UP).await;
    let refused = late.exchange(&ended, crate::fixture::READ).await;
    refused.is_error(503, "temporarily_unavailable");
    assert!(!refused.header("retry-after").is_empty());
    // Logins and logouts work.
    let [session, other] = [log_in(&late).await, log_in(&late).await];
    log_out(&late, &other).await;
    let refused = late.exchange(&session, crate::fixture::READ).await;
    refused.is_error(503, "temporarily_unavailable");
    late.ready().await.is_readiness("not_ready", &CATCHING_UP);
    fixture.redis.signal("CONT");
    fixture.synchronized(&late).await;
    assert!(serves(&late, &session).await);
    assert!(!serves(&late, &other).await && !serves(&late, &ended).await);
}

#[tokio::test]
async fn replica_that_never_finds_redis_serves_degraded_after_the_deadline() {
    let Some(mut fixture) = fixture() else { return };
    let [early] = fixture.replicas().await;
    let [ended, failed] = [log_in(&early).await, log_in(&early).await];
    log_out(&early, &ended).await;
    fixture.break_logouts();
    assert_eq!(early.log_out(&failed).await.status, 500);
    has_sent_all(&early).await;
    fixture.redis.kill();
    let late = fixture.gateway(&AT_ONCE);
    late.wait_for_readiness("degraded", &["revocations_unreachable"])
        .await;
    // The documentation allows this case and no other.
    assert!(!serves(&late, &ended).await);
    assert!(serves(&late, &failed).await);
}
