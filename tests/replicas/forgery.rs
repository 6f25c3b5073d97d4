//! An attacker with full access to Redis, but without a sealing key.

use test_support::wait::until;

use crate::metrics::{has_received, has_sent_all};

use crate::fixture::{fixture, log_in, log_out, refuses, serves};
use test_support::redis_server::{LOGINS, STREAM};

#[tokio::test]
async fn no_change_in_redis_revives_a_session() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    log_out(&one, &session).await;
    refuses(&other, &session).await;
    has_sent_all(&one).await;
    let mut admin = fixture.redis.admin();
    let [entry] = &admin.revocations()[..] else {
        panic!("one entry");
    };
    let entry = entry.clone();
    // The same again, shortened, and with each byte changed, so also with other times and kinds.
    admin.append(&entry);
    for length in 0..entry.len() {
        admin.append(&entry[..length]);
        let mut changed = entry.clone();
        changed[length] ^= 1;
        admin.append(&changed);
    }
    admin.run("FLUSHALL");
    admin.disconnect_all();
    for gateway in [&one, &other] {
        until("it came back", async || {
            gateway.wait_for_readiness("ready", &[]).await;
            gateway.metric("revocations_synchronized", "").await == 1
        })
        .await;
        assert!(!serves(gateway, &session).await);
        fixture.outlive_freshness();
        assert!(!serves(gateway, &session).await);
    }
}

#[tokio::test]
async fn invalid_entry_is_ignored_and_counted() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    log_out(&one, &log_in(&one).await).await;
    has_received(&other, 1).await;
    let mut admin = fixture.redis.admin();
    let entry = admin.revocations().remove(0);
    let changed = |byte: usize| {
        let mut changed = entry.clone();
        changed[byte] ^= 0x80;
        changed
    };
    let entries = [
        (Vec::new(), "malformed"),
        (b"garbage".to_vec(), "malformed"),
        (session.session_id.clone().into_bytes(), "malformed"),
        (changed(0), "malformed"),
        (changed(17), "malformed"),
        // It would be removed in the far future, end sessions that begin later, or name another.
        (changed(1), "forged"),
        (changed(9), "forged"),
        (changed(18), "forged"),
        (changed(53), "forged"),
        (changed(34), "unknown_key"),
    ];
    let mut expected = [("malformed", 2), ("forged", 0), ("unknown_key", 0)];
    for (entry, reason) in &entries {
        admin.append(entry);
        let count = expected.iter_mut().find(|(name, _)| name == reason);
        count.expect("a reason").1 += 1;
    }
    // With another name, and with a second field.
    admin.words(&["XADD", STREAM, "*", "x", "1"]);
    admin.words(&["XADD", STREAM, "*", "r", "1", "x", "2"]);
    let late = fixture.gateway(&[]);
    fixture.synchronized(&late).await;
    for gateway in [&one, &other, &late] {
        for (reason, count) in expected {
            let metric = format!("revocations_ignored_total{{reason=\"{reason}\"}}");
            until("invalid entries to be counted", async || {
                gateway.metric(&metric, "").await == count
            })
            .await;
        }
        assert!(serves(gateway, &session).await);
    }
    assert_eq!(late.metric("revocations_received_total", "").await, 1);
}

/// Ids only grow, so the entries of a new stream have lower ids than one from the future.
#[tokio::test]
async fn revocation_in_a_stream_that_was_replaced_reaches_the_replicas_that_run() {
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let mut admin = fixture.redis.admin();
    for recreated in [false, true] {
        let before = fixture.known_session(&[&one, &other]).await;
        log_out(&one, &before).await;
        refuses(&other, &before).await;
        let ignored = other.metric("revocations_ignored_total", "malformed").await;
        admin.words(&["XADD", STREAM, "99999999999999-7", "r", "x"]);
        until("the entry to be read", async || {
            let now = other.metric("revocations_ignored_total", "malformed").await;
            now == ignored + 1
        })
        .await;
        admin.words(&["DEL", STREAM]);
        if recreated {
            admin.words(&["XADD", STREAM, "1-1", "r", "x"]);
        }
        let session = fixture.known_session(&[&one, &other]).await;
        log_out(&one, &session).await;
        refuses(&other, &session).await;
        // What the old stream had is added again.
        until("the entries", async || {
            let entries = admin.revocations();
            let live = entries.iter().filter(|entry| entry.len() > 1);
            live.count() == 2 + 2 * usize::from(recreated)
        })
        .await;
    }
}

#[tokio::test]
async fn entry_of_any_size_does_not_fill_the_memory_of_a_replica() {
    const MIB: usize = 1 << 20;
    let Some(fixture) = fixture() else { return };
    let [one, other] = fixture.replicas().await;
    let before = largest_memory();
    let mut admin = fixture.redis.admin();
    // Made in Redis, because this process has the memory of the replicas.
    let add = "redis.call('XADD', KEYS[1], '*', 'r', string.rep('x', ARGV[1]))";
    for stream in [STREAM, LOGINS] {
        admin.words(&["EVAL", add, "1", stream, &(100 * MIB).to_string()]);
    }
    // They are removed, because each look at them would take the time of Redis.
    until("no entry to be left", async || {
        let mut length = |stream| admin.words(&["XLEN", stream]);
        [STREAM, LOGINS].map(&mut length) == [redis::Value::Int(0), redis::Value::Int(0)]
    })
    .await;
    let session = fixture.known_session(&[&one, &other]).await;
    log_out(&one, &session).await;
    refuses(&other, &session).await;
    // The other tests in this process need some.
    let grown = largest_memory() - before;
    assert!(grown < 250 * MIB, "{grown} bytes");
}

/// The largest memory of this process until now, in bytes.
fn largest_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<usize>().ok())
        .expect("a number")
        * 1_024
}
