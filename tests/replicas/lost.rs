//! A Redis that loses or removes entries, and clocks that differ.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iam_adapters::Clock as _;
use test_support::ManualClock;
use test_support::wait::until;

use crate::fixture::{ReplicaFixture, fixture, log_in, log_out, refuses, serves};
use crate::metrics::{has_received, has_sent_all};
use test_support::redis_server::{STREAM, Server};

#[tokio::test]
async fn revocations_that_redis_lost_are_added_again_by_the_replicas() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    fixture.break_logouts();
    assert_eq!(one.log_out(&session).await.status, 500);
    has_received(&other, 1).await;
    // The replica that recorded it first is stopped.
    drop(one);
    let mut admin = fixture.redis.admin();
    admin.run("FLUSHALL");
    admin.disconnect_all();
    until("the revocation to be there again", async || {
        admin.revocations().len() == 1
    })
    .await;
    // The IAM has not received the logout.
    let [late] = fixture.replicas().await;
    assert!(!serves(&late, &session).await);
}

/// No replica has an earlier entry by which it could find out.
#[tokio::test]
async fn first_revocation_is_added_again_although_no_replica_has_read_it() {
    let Some(fixture) = fixture() else { return };
    let [one] = fixture.replicas().await;
    let session = log_in(&one).await;
    let mut admin = fixture.redis.admin();
    log_out(&one, &session).await;
    admin.run("FLUSHALL");
    until("the revocation to be there again", async || {
        admin.revocations().len() == 1
    })
    .await;
}

/// Its clock decides neither what the others read nor what Redis keeps.
#[tokio::test]
async fn replica_whose_clock_is_ten_minutes_ahead_shares_revocations_and_removes_none() {
    let Some(fixture) = fixture() else { return };
    let ahead = fixture.clock.now().unix + Duration::from_secs(600);
    let ahead = Arc::new(ManualClock::at(ahead));
    let [one] = fixture.replicas().await;
    let fast = fixture.gateway_by(&ahead, &[]);
    fast.wait_for_readiness("degraded", &["clock_wrong"]).await;
    let reason = fast.ready().await.json()["reasons"][0]["message"].clone();
    let reason = reason.as_str().expect("text");
    assert!(
        reason.ends_with(" s ahead of the clock of Redis"),
        "{reason}"
    );
    ahead.advance(Duration::from_millis(1));
    let here = fixture.known_session(&[&one, &fast]).await;
    let there = fixture.known_session(&[&one, &fast]).await;
    log_out(&one, &here).await;
    refuses(&fast, &here).await;
    log_out(&fast, &there).await;
    refuses(&one, &there).await;
    for gateway in [&one, &fast] {
        has_sent_all(gateway).await;
    }
    fixture.redis.admin().disconnect_all();
    fixture.synchronized(&fast).await;
    assert_eq!(fixture.redis.admin().revocations().len(), 2);
    let [late] = fixture.replicas().await;
    has_received(&late, 2).await;
}

/// A clock so far behind that of Redis that what is added now has expired there: sessions live for eight hours, and
/// entries for an hour longer.
fn clock_of_expired_entries() -> Arc<ManualClock> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let past = now
        .expect("after 1970")
        .saturating_sub(Duration::from_secs(11 * 3_600));
    Arc::new(ManualClock::at(past))
}

#[tokio::test]
async fn entries_that_have_expired_by_the_clock_of_redis_are_removed() {
    let Some(redis) = Server::start_with(None, &["--port", "{port}"]) else {
        return;
    };
    let clock = clock_of_expired_entries();
    let fixture = ReplicaFixture::with_clock(redis, Arc::clone(&clock));
    // Otherwise the replica reads all of the stream again after its first entry.
    (fixture.redis.admin()).words(&["XADD", STREAM, "1-1", "r", "x"]);
    let [one] = fixture.replicas().await;
    log_out(&one, &log_in(&one).await).await;
    clock.advance(Duration::from_secs(4 * 3_600));
    let session = log_in(&one).await;
    log_out(&one, &session).await;
    has_sent_all(&one).await;
    assert_eq!(fixture.redis.admin().revocations().len(), 3);
    let [late] = fixture.replicas().await;
    has_received(&late, 1).await;
    assert!(!serves(&late, &session).await);
    assert_eq!(fixture.redis.admin().revocations().len(), 2);
}

#[tokio::test]
async fn last_entry_stays_after_its_expiry_so_that_replicas_find_their_position() {
    let Some(redis) = Server::start_with(None, &["--port", "{port}"]) else {
        return;
    };
    let fixture = ReplicaFixture::with_clock(redis, clock_of_expired_entries());
    // Each reading of the whole stream ignores it once.
    (fixture.redis.admin()).words(&["XADD", STREAM, "1-1", "r", "x"]);
    let [one, other] = fixture.replicas().await;
    log_out(&other, &log_in(&other).await).await;
    has_received(&one, 1).await;
    // It reads the whole stream.
    let [_late] = fixture.replicas().await;
    assert_eq!(fixture.redis.admin().revocations().len(), 2);
    log_out(&other, &log_in(&other).await).await;
    has_received(&one, 2).await;
    assert_eq!(one.metric("revocations_ignored_total", "").await, 1);
}

#[tokio::test]
async fn gateways_with_different_public_urls_share_nothing_in_one_redis() {
    let Some(fixture) = fixture() else { return };
    let url = fixture.redis.url();
    let at = |public_url| {
        let settings = [("redis.url", url.as_str()), ("http.public_url", public_url)];
        fixture.lone_gateway(&settings)
    };
    let (one, same) = (at("https://shop.test"), at("https://shop.test"));
    let other = at("https://shop.test/staging");
    for gateway in [&one, &same, &other] {
        fixture.synchronized(gateway).await;
    }
    let session = fixture.known_session(&[&one, &same, &other]).await;
    log_out(&one, &session).await;
    refuses(&same, &session).await;
    assert!(serves(&other, &session).await);
    assert_eq!(other.metric("revocations_received_total", "").await, 0);
    let keys = fixture.redis.admin().run("KEYS *");
    let keys = format!("{keys:?}");
    assert!(
        keys.contains("auth-gateway:shop.test:revocations"),
        "{keys}"
    );
}
