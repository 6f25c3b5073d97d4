//! An attacker with full access to Redis, but without a sealing key.

use iam_adapters::Clock as _;
use test_support::wait::until;

use crate::metrics::{has_received, has_sent_all};

use crate::fixture::{ReplicaFixture, log_in, log_out, refuses, serves};

#[tokio::test]
async fn no_change_in_redis_revives_a_session() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [one, other] = fixture.replicas().await;
    let session = fixture.known_session(&[&one, &other]).await;
    log_out(&one, &session).await;
    refuses(&other, &session).await;
    has_sent_all(&one).await;
    let mut admin = fixture.redis.admin();
    let [(key, value)] = &admin.dump()[..] else {
        panic!("one key");
    };
    let what = key.rsplit_once("revocation:").expect("a prefix").1;
    for prefix in ["", "un", "!", "-", "live:", "end:0:"] {
        admin.publish(format!("{prefix}{what} {value}").as_bytes());
    }
    for forget_at in ["0", "1", "-1", ""] {
        admin.words(&["SET", key, forget_at]);
        admin.publish(format!("{what} {forget_at}").as_bytes());
    }
    admin.words(&["DEL", key]);
    admin.publish(what.as_bytes());
    admin.run("FLUSHALL");
    admin.run("CLIENT KILL TYPE pubsub");
    for gateway in [&one, &other] {
        until("it came back", async || {
            gateway.wait_for_readiness("ready", &[]).await;
            gateway.metric("revocations_in_step", "").await == 1
        })
        .await;
        assert!(!serves(gateway, &session).await);
        fixture.outlive_freshness();
        assert!(!serves(gateway, &session).await);
    }
}

#[tokio::test]
async fn invalid_message_is_ignored_and_counted() {
    let Some(fixture) = ReplicaFixture::new() else {
        return;
    };
    let [listener] = fixture.replicas().await;
    let session = fixture.known_session(&[&listener]).await;
    let mut admin = fixture.redis.admin();
    let name = "AAAAAAAAAAAAAAAAAAAAAA";
    let soon = fixture.clock.now().unix_seconds() + 3_600;
    let far = u64::MAX;
    let big = "x".repeat(1_000_000);
    let messages = [
        String::new(),
        "garbage".to_owned(),
        format!("session:{name}"),
        format!("session:{name} {far}"),
        format!("subject:{name}:{far} {}", far / 2),
        session.session_id.clone(),
        format!("session:{} {soon}", session.session_id.len()),
        big.clone(),
    ];
    for message in &messages {
        admin.publish(message.as_bytes());
    }
    admin.publish(b"\xff\x00\xfe");
    let ignored = messages.len() as u64 + 1;
    until("all garbage is counted", async || {
        listener.metric("revocations_ignored_total", "").await == ignored
    })
    .await;
    // A name of no session ends nothing, whatever its kind.
    admin.publish(format!("session:{} {soon}", session.session_id).as_bytes());
    has_received(&listener, 1).await;
    assert!(serves(&listener, &session).await);

    let soon = soon.to_string();
    let key = |what: &str| format!("auth-gateway:revocation:{what}");
    admin.words(&["SET", &key("garbage"), &soon]);
    admin.words(&["SET", &key(&format!("session:{name}")), &big]);
    admin.words(&["SET", &key(&big), &soon]);
    admin.words(&["LPUSH", &key(&format!("upstream_session:{name}")), &soon]);
    let [late] = fixture.replicas().await;
    assert_eq!(late.metric("revocations_ignored_total", "").await, 4);
    assert_eq!(late.metric("revocations_received_total", "").await, 0);
    let session = log_in(&late).await;
    assert!(serves(&late, &session).await);
}
