//! Cached data that replicas share through Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use test_support::client::Session;
use test_support::gateway::TestGateway;
use test_support::wait::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::fixture::{ReplicaFixture, fixture, log_in, serves};
use crate::metrics::introspections;
use test_support::redis_server::{Admin, PREFIX};

const SECOND: Duration = Duration::from_secs(1);

/// The number of look-ups after which they are paused, if half of them fail.
const LOOK_UPS: u64 = 20;

impl ReplicaFixture {
    /// Replicas that use data of each other. They distrust data from before they were synchronized, by more
    /// than the clocks of replicas may differ.
    async fn sharing<const N: usize>(&self) -> [TestGateway; N] {
        let replicas = self.replicas().await;
        self.clock.advance(2 * SECOND);
        replicas
    }
}

pub(crate) async fn look_ups(gateway: &TestGateway, result: &str) -> u64 {
    let label = format!("result=\"{result}\"");
    gateway.metric("shared_cache_lookups_total", &label).await
}

/// The keys of entries.
fn entries(admin: &mut Admin) -> Vec<String> {
    let keys = admin.words(&["KEYS", &format!("{PREFIX}:session:*")]);
    redis::from_redis_value(keys).expect("keys")
}

/// A new session, and the key of its entry in Redis.
pub(crate) async fn stored_session(gateway: &TestGateway, admin: &mut Admin) -> (Session, String) {
    let before = entries(admin);
    let session = log_in(gateway).await;
    let mut key = None;
    until("the entry of the session", async || {
        key = entries(admin).into_iter().find(|key| !before.contains(key));
        key.is_some()
    })
    .await;
    (session, key.expect("a key"))
}

#[tokio::test]
async fn first_exchange_after_a_login_at_another_replica_does_not_call_the_iam() {
    let Some(fixture) = fixture() else { return };
    let [one, two, three] = fixture.sharing().await;
    let mut admin = fixture.redis.admin();
    for _ in 0..10 {
        let (session, key) = stored_session(&one, &mut admin).await;
        let lifetime: u64 = redis::from_redis_value(admin.words(&["PTTL", &key])).expect("a time");
        assert!((3_590_000..=3_600_000).contains(&lifetime), "{lifetime}");
        for replica in [&two, &three, &one, &two] {
            assert!(serves(replica, &session).await);
        }
    }
    for replica in [&two, &three] {
        // On a busy machine, Redis may respond too late: then the IAM is called.
        let mut late = 0;
        for result in ["timeout", "unavailable"] {
            late += look_ups(replica, result).await;
        }
        assert!(late < 10);
        assert_eq!(look_ups(replica, "hit").await, 10 - late);
        assert_eq!(replica.metric("exchanges_total", "shared").await, 10 - late);
        assert_eq!(introspections(replica).await, late);
    }
    assert_eq!(introspections(&one).await, 0);
}

#[tokio::test]
async fn session_without_share_knowledge_is_introspected_by_each_replica() {
    let Some(fixture) = fixture() else { return };
    let off = [("redis.share_knowledge", "false")];
    let (one, other) = (fixture.gateway(&off), fixture.gateway(&off));
    for replica in [&one, &other] {
        fixture.synchronized(replica).await;
    }
    fixture.clock.advance(2 * SECOND);
    let session = fixture.known_session(&[&one, &other]).await;
    assert!(serves(&one, &session).await);
    assert_eq!(introspections(&other).await, 1);
    assert_eq!(entries(&mut fixture.redis.admin()), [""; 0]);
}

/// Changes the entry under a key.
type Spoil<'a> = &'a dyn Fn(&mut Admin, &str);

/// Entries of a writer other than a replica, each for a new session.
#[tokio::test]
async fn hostile_entry_is_not_used_and_the_iam_is_called() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.sharing().await;
    let mut admin = fixture.redis.admin();
    let (_, other_entry) = stored_session(&one, &mut admin).await;
    let huge = "x".repeat(40 * 1024 * 1024);
    let spoil: [(&str, Spoil<'_>); 6] = [
        ("invalid", &|admin, key| {
            admin.words(&["SET", key, "garbage", "PX", "3600000"]);
        }),
        ("invalid", &|admin, key| {
            admin.words(&["SET", key, &huge, "PX", "3600000"]);
        }),
        ("invalid", &|admin, key| {
            let entry = admin.words(&["DUMP", &other_entry]);
            admin.restore(key, &entry);
        }),
        ("stale", &|admin, key| {
            admin.words(&["PERSIST", key]);
        }),
        ("unavailable", &|admin, key| {
            admin.words(&["DEL", key]);
            admin.words(&["LPUSH", key, "a list"]);
        }),
        ("miss", &|admin, key| {
            admin.words(&["DEL", key]);
        }),
    ];
    for (number, (result, spoil)) in spoil.into_iter().enumerate() {
        let (session, key) = stored_session(&one, &mut admin).await;
        spoil(&mut admin, &key);
        let before = (look_ups(&other, result).await, sent(&mut admin));
        assert!(serves(&other, &session).await);
        assert_eq!(look_ups(&other, result).await, before.0 + 1, "{number}");
        assert_eq!(introspections(&other).await, number as u64 + 1);
        let sent = sent(&mut admin) - before.1;
        assert!(sent < 1024 * 1024, "Redis sent {sent} bytes");
    }
    let (session, _) = stored_session(&one, &mut admin).await;
    assert!(serves(&other, &session).await);
    assert_eq!(look_ups(&other, "hit").await, 1, "the control");
}

/// How many bytes Redis has sent to all clients.
fn sent(admin: &mut Admin) -> u64 {
    let text = admin.words(&["INFO", "stats"]);
    let text: String = redis::from_redis_value(text).expect("text");
    let mut lines = text.lines();
    let sent = lines.find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    sent.expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn full_redis_shares_nothing_and_delays_no_exchange() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.sharing().await;
    let mut admin = fixture.redis.admin();
    admin.run("CONFIG SET maxmemory-policy noeviction");
    admin.run("CONFIG SET maxmemory 1");
    for number in 1..=5 {
        let session = fixture.known_session(&[&one, &other]).await;
        assert!(serves(&one, &session).await);
        assert_eq!(look_ups(&other, "miss").await, number);
        assert_eq!(introspections(&other).await, number);
    }
    admin.run("CONFIG SET maxmemory 0");
    let (session, _) = stored_session(&one, &mut admin).await;
    assert!(serves(&other, &session).await);
    assert_eq!(look_ups(&other, "hit").await, 1);
}

#[tokio::test]
async fn with_redis_stopped_or_absent_every_exchange_calls_the_iam() {
    let Some(mut fixture) = fixture() else { return };
    let [one, other] = fixture.sharing().await;
    let session = log_in(&one).await;
    fixture.redis.signal("STOP");
    assert!(serves(&other, &session).await);
    assert_eq!(look_ups(&other, "timeout").await, 1);
    other
        .wait_for_readiness("degraded", &["revocations_unreachable"])
        .await;
    for number in 1..=30 {
        let session = fixture.known_session(&[&one, &other]).await;
        assert!(serves(&one, &session).await);
        assert_eq!(look_ups(&other, "unavailable").await, number);
    }
    fixture.redis.kill();
    for number in 31..=35 {
        fixture.known_session(&[&one, &other]).await;
        assert_eq!(look_ups(&other, "unavailable").await, number);
    }
    assert_eq!(introspections(&other).await, 36);
}

/// The clock of the circuit breaker stands still, so the pause ends when the test advances it.
#[tokio::test]
async fn slow_redis_is_not_called_during_a_pause_after_failed_look_ups() {
    let Some(fixture) = fixture() else { return };
    let delay = Arc::<AtomicU64>::default();
    let port = slow_proxy(fixture.redis.port(), Arc::clone(&delay)).await;
    let [one] = fixture.sharing().await;
    let url = format!("redis://127.0.0.1:{port}");
    let other = fixture.gateway(&[("redis.url", &url)]);
    fixture.synchronized(&other).await;
    fixture.clock.advance(2 * SECOND);
    let mut admin = fixture.redis.admin();
    delay.store(50, Ordering::Relaxed);
    for _ in 0..LOOK_UPS {
        let (session, _) = stored_session(&one, &mut admin).await;
        assert!(serves(&other, &session).await);
    }
    // On a busy machine a response can arrive late and still be there before the deadline is noticed.
    let early = look_ups(&other, "hit").await;
    assert!(early <= LOOK_UPS / 2, "{early}");
    assert_eq!(look_ups(&other, "timeout").await + early, LOOK_UPS);
    for number in 1..=5 {
        let (session, _) = stored_session(&one, &mut admin).await;
        assert!(serves(&other, &session).await);
        assert_eq!(look_ups(&other, "unavailable").await, number);
    }
    assert_eq!(introspections(&other).await, LOOK_UPS - early + 5);
    delay.store(0, Ordering::Relaxed);
    // The delayed responses pass first.
    sleep(SECOND / 2).await;
    fixture.clock.advance(4 * SECOND);
    let (session, _) = stored_session(&one, &mut admin).await;
    assert!(serves(&other, &session).await);
    assert_eq!(look_ups(&other, "hit").await, early + 1);
    other.wait_for_readiness("ready", &[]).await;
}

/// A proxy that delays what Redis sends, in milliseconds. Returns its port.
async fn slow_proxy(redis: u16, delay: Arc<AtomicU64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", redis)).await;
            let (mut from_server, mut to_server) = server.expect("Redis").into_split();
            let (mut from_client, mut to_client) = client.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let delay = Arc::clone(&delay);
            tokio::spawn(async move {
                let mut bytes = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = from_server.read(&mut bytes).await {
                    sleep(Duration::from_millis(delay.load(Ordering::Relaxed))).await;
                    if to_client.write_all(&bytes[..length]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}
