//! A Redis that responds with errors.

use std::time::Duration;

use test_support::gateway::TestGateway;

use crate::fixture::{
    AT_ONCE, RIGHTS, ReplicaFixture, fixture, log_out, refuses, serves, works_without_redis,
};
use crate::metrics::{has_received, has_sent_all};
use crate::shared_cache::{look_ups, stored_session};
use crate::{keys, login_limits};
use test_support::redis_server::{STREAM, Server};

const REFUSED: [&str; 1] = ["revocations_refused"];

/// Logs a session out at one gateway and waits until the other refuses it.
async fn a_logout_is_felt(fixture: &ReplicaFixture, one: &TestGateway, other: &TestGateway) {
    let session = fixture.known_session(&[one, other]).await;
    log_out(one, &session).await;
    refuses(other, &session).await;
}

#[tokio::test]
async fn read_only_redis_leaves_the_freshness_as_the_bound_and_stores_once_it_is_writable() {
    stores_nothing(&["REPLICAOF 127.0.0.1 1"], "REPLICAOF NO ONE").await;
}

#[tokio::test]
async fn full_redis_leaves_the_freshness_as_the_bound_and_stores_once_it_has_memory() {
    let full = [
        "CONFIG SET maxmemory-policy noeviction",
        "CONFIG SET maxmemory 1",
    ];
    stores_nothing(&full, "CONFIG SET maxmemory 0").await;
}

async fn stores_nothing(begin: &[&str], end: &str) {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let mut admin = fixture.redis.admin();
    for command in begin {
        admin.run(command);
    }
    // Only the revocations end these sessions, also for a replica that reconnects.
    fixture.break_logouts();
    // More than one, so that a refused revocation does not block later ones.
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let session = fixture.known_session(&[&one, &other]).await;
        assert_eq!(one.log_out(&session).await.status, 500);
        sessions.push(session);
    }
    one.wait_for_readiness("degraded", &REFUSED).await;
    other.wait_for_readiness("ready", &[]).await;
    assert_eq!(one.metric("revocations_pending", "").await, 5);
    for session in &sessions {
        assert!(!serves(&one, session).await);
        assert!(serves(&other, session).await, "the control");
    }
    admin.run(end);
    has_sent_all(&one).await;
    one.wait_for_readiness("ready", &[]).await;
    has_received(&other, 5).await;
    for session in &sessions {
        assert!(!serves(&other, session).await);
    }
    assert_eq!(admin.revocations().len(), 5);
    let [late] = fixture.replicas().await;
    has_received(&late, 5).await;
}

/// An operator or another program used the key.
#[tokio::test]
async fn key_of_another_type_degrades_only_until_it_is_deleted() {
    let Some(fixture) = fixture() else { return };
    let mut admin = fixture.redis.admin();
    admin.words(&["SET", STREAM, "a string"]);
    let one = fixture.gateway(&AT_ONCE);
    works_without_redis(&one).await;
    admin.words(&["DEL", STREAM]);
    fixture.synchronized(&one).await;
    has_sent_all(&one).await;
    assert_eq!(admin.revocations().len(), 1);
}

#[tokio::test]
async fn wrong_password_of_redis_degrades_only_and_a_changed_password_is_detected() {
    let password = Some("the password of this Redis");
    let Some(redis) = Server::start_with(password, &["--port", "{port}"]) else {
        return;
    };
    let fixture = ReplicaFixture::with_redis(redis);
    let with = |password| {
        let password = ("redis.password", password);
        fixture.gateway(&[password, AT_ONCE[0]])
    };
    let (right, other) = (
        with("the password of this Redis"),
        with("the password of this Redis"),
    );
    let (wrong, none) = (with("another"), fixture.gateway(&AT_ONCE));
    for gateway in [&wrong, &none] {
        works_without_redis(gateway).await;
    }
    for gateway in [&right, &other] {
        fixture.synchronized(gateway).await;
    }
    a_logout_is_felt(&fixture, &right, &other).await;
    let mut admin = fixture.redis.admin();
    admin.run("CONFIG SET requirepass another");
    // Existing connections stay authenticated, so all are closed.
    admin.disconnect_all();
    for gateway in [&right, &other] {
        gateway
            .wait_for_readiness("degraded", &["revocations_unreachable"])
            .await;
    }
    fixture.synchronized(&wrong).await;
    admin.words(&["CONFIG", "SET", "requirepass", "the password of this Redis"]);
    for gateway in [&right, &other] {
        fixture.synchronized(gateway).await;
    }
    a_logout_is_felt(&fixture, &right, &other).await;
}

#[tokio::test]
async fn documented_minimal_permissions_of_a_redis_user_suffice() {
    let Some(fixture) = fixture() else { return };
    let user = ["ACL", "SETUSER", "gateway", "on"];
    let access = [">of-the-gateway", "~auth-gateway:*"];
    let words = [&user[..], &access, &RIGHTS].concat();
    fixture.redis.admin().words(&words);
    let user = [
        ("redis.username", "gateway"),
        ("redis.password", "of-the-gateway"),
    ];
    let (one, other) = (fixture.gateway(&user), fixture.gateway(&user));
    for gateway in [&one, &other] {
        fixture.synchronized(gateway).await;
        login_limits::shares(gateway).await;
    }
    a_logout_is_felt(&fixture, &one, &other).await;
    has_sent_all(&one).await;
    let mut admin = fixture.redis.admin();
    assert_eq!(admin.revocations().len(), 1);
    assert!(keys::statements(&mut admin).contains("used sealing"));
    fixture.clock.advance(Duration::from_secs(2));
    let (session, _) = stored_session(&one, &mut admin).await;
    let hits = look_ups(&other, "hit").await;
    assert!(serves(&other, &session).await);
    assert_eq!(look_ups(&other, "hit").await, hits + 1);
}
