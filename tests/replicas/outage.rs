//! An unavailable Redis: no request waits for it or fails because of it.

use test_support::gateway::TestGateway;

use crate::fixture::{AT_ONCE, fixture, log_in, log_out, refuses, serves};
use crate::metrics::{has_received, has_sent_all};

/// The number of sessions that end at each gateway.
const ENDS: u64 = 4;

/// Logins, exchanges with and without cached data, and logouts.
async fn everything_works(gateways: [&TestGateway; 2]) {
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
async fn redis_that_starts_after_the_gateways_is_found() {
    let Some(mut fixture) = fixture() else { return };
    fixture.redis.kill();
    let gateways = [(); 2].map(|()| fixture.gateway(&AT_ONCE));
    let [one, other] = &gateways;
    one.wait_for_readiness("degraded", &UNREACHABLE).await;
    assert_eq!(one.metric("revocations_synchronized", "").await, 0);
    everything_works([one, other]).await;
    fixture.redis.start_again();
    for gateway in &gateways {
        fixture.synchronized(gateway).await;
        assert_eq!(gateway.metric("revocations_synchronized", "").await, 1);
    }
    has_received(one, ENDS).await;
    let session = fixture.known_session(&[one, other]).await;
    log_out(one, &session).await;
    refuses(other, &session).await;
    has_received(other, ENDS + 1).await;
}

#[tokio::test]
async fn outage_of_redis_is_reported_and_its_return_is_detected() {
    let Some(mut fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    for round in 1..=3 {
        fixture.redis.kill();
        for gateway in [&one, &other] {
            gateway.wait_for_readiness("degraded", &UNREACHABLE).await;
        }
        everything_works([&one, &other]).await;
        fixture.redis.start_again();
        for gateway in [&one, &other] {
            fixture.synchronized(gateway).await;
            has_sent_all(gateway).await;
        }
        let session = fixture.known_session(&[&one, &other]).await;
        log_out(&other, &session).await;
        refuses(&one, &session).await;
        has_received(&one, round * (ENDS + 1)).await;
        has_received(&other, round * ENDS).await;
    }
}

#[tokio::test]
async fn hanging_redis_is_detected_and_delays_no_request() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    fixture.redis.signal("STOP");
    log_out(&one, &session).await;
    everything_works([&one, &other]).await;
    for gateway in [&one, &other] {
        gateway.wait_for_readiness("degraded", &UNREACHABLE).await;
    }
    everything_works([&one, &other]).await;
    // The control: cached data does not expire here by itself.
    assert!(serves(&other, &session).await);
    fixture.redis.signal("CONT");
    // Not by an introspection, which it makes after a gap.
    has_received(&one, 2 * ENDS).await;
    has_received(&other, 2 * ENDS + 1).await;
    assert!(!serves(&other, &session).await);
    for gateway in [&one, &other] {
        fixture.synchronized(gateway).await;
        has_sent_all(gateway).await;
    }
}

#[tokio::test]
async fn hanging_redis_is_detected_by_an_idle_replica() {
    let Some(fixture) = fixture() else { return };
    let [idle] = fixture.replicas().await;
    for _ in 0..2 {
        fixture.redis.signal("STOP");
        idle.wait_for_readiness("degraded", &UNREACHABLE).await;
        fixture.redis.signal("CONT");
        fixture.synchronized(&idle).await;
    }
}

#[tokio::test]
async fn paused_redis_delays_no_request() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    let mut admin = fixture.redis.admin();
    let asleep = std::thread::spawn(move || admin.run("DEBUG SLEEP 5"));
    everything_works([&one, &other]).await;
    log_out(&one, &session).await;
    asleep.join().expect("awake again");
    has_received(&other, ENDS + 1).await;
    assert!(!serves(&other, &session).await);
}
