//! Replicas whose keys differ.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use tempfile::tempdir;
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::wait::until;

use crate::fixture::{ReplicaFixture, fixture, log_in, refuses, serves};
use crate::revoking::{TOKEN, revoke};
use test_support::redis_server::Admin;

/// Where the replicas state which keys they use.
const KEYS: &str = "auth-gateway:test:keys";

/// A replica that lacks a key of another one, and uses one that the other lacks.
const DIFFER: [&str; 2] = ["keys_differ", "keys_differ"];

fn copy_keys(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for file in fs::read_dir(from).expect("a folder") {
        let file = file.expect("a key file");
        fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

/// A gateway with another folder of sealing keys.
fn gateway_with(fixture: &ReplicaFixture, sealing: &Path) -> TestGateway {
    let sealing = sealing.to_str().expect("a path of text");
    fixture.gateway(&[("keys.sealing_dir", sealing)])
}

async fn differ(gateway: &TestGateway) -> u64 {
    gateway.metric("keys_differ", "purpose=\"sealing\"").await
}

/// What the replicas have stated.
pub(crate) fn statements(admin: &mut Admin) -> String {
    match admin.words(&["GET", KEYS]) {
        redis::Value::BulkString(text) => String::from_utf8(text).expect("text"),
        redis::Value::Nil => String::new(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn replicas_that_use_different_sealing_keys_are_degraded_until_each_has_both() {
    let Some(fixture) = fixture() else { return };
    let [one] = fixture.replicas().await;
    let others = TestKeys::new();
    let folders = [fixture.keys.folder("sealing"), others.folder("sealing")];
    let other = gateway_with(&fixture, &folders[1]);
    for gateway in [&one, &other] {
        gateway.wait_for_readiness("degraded", &DIFFER).await;
        assert_eq!(differ(gateway).await, 1);
    }
    let report = one.ready().await.text();
    for folder in &folders {
        let file = fs::read_dir(folder).expect("a folder").next();
        let file = file.expect("a key").expect("a key").path();
        let kid = file.file_stem().expect("a name").to_str().expect("text");
        assert!(report.contains(kid), "{kid}: {report}");
    }
    let session = log_in(&one).await;
    assert!(serves(&one, &session).await);
    assert!(
        !serves(&other, &session).await,
        "the effect of the difference"
    );
    copy_keys(&folders[0], &folders[1]);
    copy_keys(&folders[1], &folders[0]);
    for gateway in [&one, &other] {
        gateway.wait_for_readiness("ready", &[]).await;
        assert_eq!(differ(gateway).await, 0);
        assert!(serves(gateway, &session).await);
    }
}

#[tokio::test]
async fn difference_ends_with_the_replica_that_had_other_keys() {
    let Some(fixture) = fixture() else { return };
    let [one] = fixture.replicas().await;
    let others = TestKeys::new();
    let other = gateway_with(&fixture, &others.folder("sealing"));
    one.wait_for_readiness("degraded", &DIFFER).await;
    drop(other);
    one.wait_for_readiness("ready", &[]).await;
}

/// The replica that is called lacks the key of the session, so it cannot compute the id of its revocation.
#[tokio::test]
async fn revocation_by_an_operator_is_pending_until_all_replicas_have_the_same_sealing_keys() {
    let Some(fixture) = fixture() else { return };
    let replicas: [_; 1] = fixture.replicas().await;
    let (folder, fewer) = (fixture.keys.folder("sealing"), tempdir().expect("a folder"));
    copy_keys(&folder, fewer.path());
    let sealing = fewer.path().to_str().expect("a path of text");
    let other = fixture.gateway(&[("keys.sealing_dir", sealing), ("management.token", TOKEN)]);
    fixture.synchronized(&other).await;
    let before = fixture.add_sealing_key(&replicas).await;
    let [one] = &replicas;
    let is_difference = async |expected: u64| {
        for gateway in [one, &other] {
            until("the comparison of the keys", async || {
                differ(gateway).await == expected
            })
            .await;
        }
    };
    // Each replica has also compared its clock, which has advanced, with that of Redis.
    is_difference(1).await;
    let session = log_in(one).await;
    assert_eq!(revoke(&other, &json!({ "all": true })).await, "pending");
    assert!(serves(one, &session).await, "the effect of the difference");
    copy_keys(&folder, fewer.path());
    is_difference(0).await;
    assert_eq!(revoke(&other, &json!({ "all": true })).await, "delivered");
    refuses(one, &session).await;
    // A key that is used no longer has sessions too.
    let before = before.file_name().expect("a name");
    fs::remove_file(fewer.path().join(before)).expect("removed");
    is_difference(1).await;
    assert_eq!(revoke(&other, &json!({ "all": true })).await, "pending");
}

/// Replicas with different keys have none in common that could authenticate the statements.
#[tokio::test]
async fn statements_of_others_cause_a_warning_that_ends_and_nothing_else() {
    let Some(fixture) = fixture() else { return };
    let [one] = fixture.replicas().await;
    let mut admin = fixture.redis.admin();
    let is_text = async |admin: &mut Admin| {
        until("the value to be replaced", async || {
            admin.words(&["TYPE", KEYS]) == redis::Value::SimpleString("string".to_owned())
        })
        .await;
    };
    is_text(&mut admin).await;
    admin.words(&["DEL", KEYS]);
    admin.words(&["LPUSH", KEYS, "an entry of a list"]);
    is_text(&mut admin).await;
    let ignored = one.metric("revocations_ignored_total", "malformed").await;
    let soon = Timestamp::now().as_second() + 10;
    let forged = format!("{soon} used sealing forged\n{soon} no statement\n");
    admin.words(&["APPEND", KEYS, &forged]);
    one.wait_for_readiness("degraded", &["keys_differ"]).await;
    let session = log_in(&one).await;
    assert!(serves(&one, &session).await);
    assert!(one.metric("revocations_ignored_total", "malformed").await > ignored);
    // They would count for ever, and take the memory of the replicas.
    let many = "99999999999 used sealing forged\n".repeat(100_000);
    admin.words(&["SET", KEYS, &many]);
    one.wait_for_readiness("ready", &[]).await;
    let left = statements(&mut admin);
    assert!(left.len() < 200, "{}", left.len());
    assert!(left.contains("used sealing"), "{left}");
}
