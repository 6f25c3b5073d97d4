//! Login limits of several replicas.

use serde_json::json;
use test_support::client::Response;
use test_support::endpoints::LOGIN;
use test_support::gateway::TestGateway;
use test_support::wait::until;

use crate::fixture::{EMAIL, PASSWORD, ReplicaFixture, fixture, have_sealing_keys};
use test_support::redis_server::{Admin, PREFIX};

const UNKNOWN_USER: &str = "unknown@example.test";
const HOME: &str = "192.0.2.1";
const OTHER: &str = "198.51.100.7";
const TOKEN: &str = "operators-token-of-some-length";

const SETTINGS: [(&str, &str); 2] = [
    ("http.trusted_proxies", "127.0.0.1"),
    ("management.token", TOKEN),
];

pub(crate) async fn log_in(
    gateway: &TestGateway,
    email: &str,
    password: &str,
    from: &str,
) -> Response {
    let body = json!({ "email": email, "password": password }).to_string();
    gateway
        .post(LOGIN, &[("x-forwarded-for", from)], body)
        .await
}

/// Whether the attempt reached the IAM, in contrast to a limit.
async fn guess(gateway: &TestGateway, email: &str, from: &str) -> bool {
    let response = log_in(gateway, email, "wrong", from).await;
    if response.status != 401 {
        response.is_error(429, "temporarily_unavailable");
    }
    response.status == 401
}

async fn events(gateway: &TestGateway, outcome: &str) -> u64 {
    let labels = format!("login_events_total{{outcome=\"{outcome}\"}}");
    gateway.metric(&labels, "").await
}

/// Waits until the gateway shares its login limits.
pub(crate) async fn shares(gateway: &TestGateway) {
    until("login limits to be shared", async || {
        gateway.metric("login_limits_synchronized", "").await == 1
    })
    .await;
}

pub(crate) async fn replicas<const N: usize>(fixture: &ReplicaFixture) -> [TestGateway; N] {
    let replicas = std::array::from_fn(|_| fixture.gateway(&SETTINGS));
    for replica in &replicas {
        fixture.synchronized(replica).await;
        shares(replica).await;
    }
    replicas
}

/// Waits until the replicas have sent this number of events, and each has received those of the others.
pub(crate) async fn exchanged(replicas: &[TestGateway], total: u64) {
    until(
        &format!("{total} login events to be exchanged"),
        async || {
            let mut own = Vec::new();
            for replica in replicas {
                own.push(events(replica, "sent").await);
            }
            let mut all = own.iter().sum::<u64>() == total;
            for (replica, own) in replicas.iter().zip(own) {
                all &= events(replica, "received").await + own == total;
            }
            all
        },
    )
    .await;
}

#[tokio::test]
async fn replica_without_redis_counts_for_itself_and_sends_its_events_later() {
    let Some(mut fixture) = fixture() else { return };
    let gateways = replicas::<2>(&fixture).await;
    fixture.redis.kill();
    for _ in 0..10 {
        assert!(guess(&gateways[0], UNKNOWN_USER, OTHER).await);
    }
    assert!(!guess(&gateways[0], UNKNOWN_USER, OTHER).await);
    assert!(guess(&gateways[1], UNKNOWN_USER, OTHER).await);
    fixture.redis.start_again();
    until("the events", async || {
        events(&gateways[1], "received").await == 10
    })
    .await;
    assert!(!guess(&gateways[1], UNKNOWN_USER, OTHER).await);
    // The same key: the counts are not lost.
    assert!(!guess(&gateways[0], UNKNOWN_USER, OTHER).await);
}

fn entries(admin: &mut Admin, stream: &str) -> Vec<Vec<u8>> {
    admin.entries(&format!("{PREFIX}:{stream}"))
}

fn append(admin: &mut Admin, stream: &str, entry: &[u8]) {
    admin.append_to(&format!("{PREFIX}:{stream}"), entry);
}

#[tokio::test]
async fn forged_or_replayed_event_has_no_effect() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = replicas(&fixture).await;
    assert_eq!(log_in(&one, EMAIL, PASSWORD, HOME).await.status, 200);
    assert!(guess(&one, UNKNOWN_USER, OTHER).await);
    until("the events", async || events(&other, "received").await == 2).await;
    let mut admin = fixture.redis.admin();
    for stream in ["logins", "logins:networks"] {
        let [entry] = &entries(&mut admin, stream)[..] else {
            panic!("one entry in {stream}");
        };
        for _ in 0..20 {
            append(&mut admin, stream, entry);
        }
        append(&mut admin, stream, &vec![b'x'; 10_000_000]);
        for at in 0..entry.len() {
            let mut changed = entry.clone();
            changed[at] ^= 1;
            append(&mut admin, stream, &changed);
            append(&mut admin, stream, &entry[..at]);
        }
    }
    let late = fixture.gateway(&SETTINGS);
    shares(&late).await;
    // 1 + 2 × 78 in each stream. The script removes those whose changed time is past.
    for gateway in [&one, &other, &late] {
        until("the forged events", async || {
            events(gateway, "ignored").await >= 300
        })
        .await;
    }
    assert_eq!(events(&other, "received").await, 2);
    assert_eq!(events(&late, "received").await, 2);
    let mut reached = 0;
    for _ in 0..20 {
        reached += usize::from(guess(&late, UNKNOWN_USER, OTHER).await);
    }
    assert_eq!(reached, 9);
}

#[tokio::test]
async fn replica_with_another_identifier_key_counts_for_itself_and_is_visible() {
    let Some(fixture) = fixture() else { return };
    let [one] = replicas(&fixture).await;
    let other_key = (
        "keys.identifier_key",
        "another-key-of-the-identifiers-of-the-tests",
    );
    let other = fixture.gateway(&[&SETTINGS[..], &[other_key]].concat());
    shares(&other).await;
    for _ in 0..10 {
        assert!(guess(&one, UNKNOWN_USER, OTHER).await);
    }
    assert!(guess(&other, UNKNOWN_USER, OTHER).await);
    for (gateway, ignored) in [(&one, 1), (&other, 10)] {
        until("the events to be ignored", async || {
            events(gateway, "ignored").await == ignored
        })
        .await;
        assert_eq!(events(gateway, "received").await, 0);
    }
    assert!(!guess(&one, UNKNOWN_USER, OTHER).await);
    assert!(guess(&other, UNKNOWN_USER, OTHER).await);
    for gateway in [&one, &other] {
        let reasons = ["keys_differ"; 2];
        gateway.wait_for_readiness("degraded", &reasons).await;
    }
}

#[tokio::test]
async fn rotation_of_the_sealing_key_changes_no_count() {
    let Some(fixture) = fixture() else { return };
    let gateways = replicas::<2>(&fixture).await;
    let [one, other] = &gateways;
    assert_eq!(log_in(one, EMAIL, PASSWORD, HOME).await.status, 200);
    exchanged(&gateways, 1).await;
    let key_before = fixture.add_sealing_key(&gateways).await;
    std::fs::remove_file(key_before).expect("removed");
    have_sealing_keys(&gateways, 1).await;
    let [late] = replicas(&fixture).await;
    assert_eq!(events(&late, "received").await, 1);
    for number in 0..10 {
        assert!(guess(one, EMAIL, OTHER).await, "{number}");
    }
    for gateway in [other, &late] {
        let own_and_others =
            async || events(gateway, "received").await + events(gateway, "sent").await == 11;
        until("the events", own_and_others).await;
        assert!(!guess(gateway, EMAIL, OTHER).await);
        assert_eq!(log_in(gateway, EMAIL, PASSWORD, HOME).await.status, 200);
    }
}

#[tokio::test]
async fn deleted_streams_end_no_limit_and_events_are_exchanged_through_new_ones() {
    let Some(fixture) = fixture() else { return };
    let gateways = replicas::<2>(&fixture).await;
    let mut admin = fixture.redis.admin();
    assert_eq!(
        log_in(&gateways[0], EMAIL, PASSWORD, HOME).await.status,
        200
    );
    exchanged(&gateways, 1).await;
    let mut reached = 0;
    for number in 0..30 {
        // First while the replicas wait for entries, then while they connect.
        if number == 3 || number == 6 {
            admin.run(&format!("DEL {PREFIX}:logins {PREFIX}:logins:networks"));
        }
        if number == 6 {
            admin.disconnect_all();
        }
        reached += u64::from(guess(&gateways[number % 2], UNKNOWN_USER, OTHER).await);
        exchanged(&gateways, 1 + reached).await;
    }
    assert_eq!(reached, 10);
    assert_eq!(entries(&mut admin, "logins").len(), 4);
}

/// Of what an attacker adds, for example.
#[tokio::test]
async fn streams_keep_a_bounded_number_of_the_latest_events() {
    let Some(fixture) = fixture() else { return };
    let mut admin = fixture.redis.admin();
    let streams = [("logins", 100_000), ("logins:networks", 500_000)];
    for (stream, max) in streams {
        let script = "for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'r', 'x') end";
        let (key, count) = (format!("{PREFIX}:{stream}"), (max + 1_000).to_string());
        admin.words(&["EVAL", script, "1", &key, &count]);
    }
    let [gateway] = replicas(&fixture).await;
    assert_eq!(log_in(&gateway, EMAIL, PASSWORD, HOME).await.status, 200);
    assert!(guess(&gateway, UNKNOWN_USER, OTHER).await);
    until("both events to be sent", async || {
        events(&gateway, "sent").await == 2
    })
    .await;
    for (stream, max) in streams {
        let length = admin.run(&format!("XLEN {PREFIX}:{stream}"));
        // Redis removes whole nodes, which have 100 entries each.
        let bounded = (max..max + 100).map(redis::Value::Int);
        assert!(bounded.into_iter().any(|one| one == length), "{length:?}");
    }
    let late = fixture.gateway(&SETTINGS);
    shares(&late).await;
    assert_eq!(events(&late, "received").await, 2);
}
