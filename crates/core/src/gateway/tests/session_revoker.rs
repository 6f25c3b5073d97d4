//! Ends of sessions that the IAM reports.

use std::time::Duration;

use std::sync::Arc;

use iam_adapters::Clock as _;
use jiff::Timestamp;
use test_support::ManualClock;

use super::test_gateway::{START, TestGateway, iam_parts, policy};
use crate::Keys;
use crate::keys::{KeyPurpose, KeySet, KeyStore, SealingKey, Times, generate, write_new};
use test_support::scripted_iam::ScriptedIam;

#[tokio::test]
async fn empty_upstream_id_ends_no_session() {
    let gateway = TestGateway::new();
    gateway.end_upstream_session("");
    assert_eq!(gateway.inner.replica.revocations.count(), 0);
}

/// The sessions of a key end at the latest a session's lifetime after its successor began.
#[tokio::test]
async fn end_is_recorded_for_those_keys_only_that_may_have_sealed_a_live_session() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
    let key = |age: u8| {
        let first_use = i64::try_from(START).unwrap() - i64::from(age) * 7 * 86_400;
        let first_use = Timestamp::from_second(first_use).unwrap();
        let secret: Vec<u8> = (age..age + 32).collect();
        SealingKey::new(&secret, &format!("key-{age}"), first_use).unwrap()
    };
    let mut keys = Keys::ephemeral(clock.now()).unwrap();
    keys.sealing = KeySet::new((0..20).map(key).collect()).unwrap().into();
    let iam = Arc::new(ScriptedIam::default());
    let policy = policy();
    let iams = vec![iam_parts(iam.clone(), policy.iam)];
    let gateway = TestGateway::with_keys(iam, iams, clock, Arc::new(keys), policy.gateway);
    let revocations = &gateway.inner.replica.revocations;
    gateway.end_upstream_session("upstream");
    // The key of this second, and the one before it.
    assert_eq!(revocations.count(), 2);
    gateway.clock.advance(Duration::from_secs(2 * 86_400));
    gateway.end_upstream_session("another");
    // The first two have expired, and only the key of this second may have sealed a live session.
    assert_eq!(revocations.count(), 1);
}

/// Another replica may have learnt of the successor last, and have used the old key for a whole lead longer.
#[tokio::test]
async fn end_is_recorded_for_a_key_that_another_replica_used_longer() {
    let day = Duration::from_secs(86_400);
    let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
    let folder = tempfile::tempdir().unwrap();
    let add_key = |first_use: u64| {
        let first_use = Timestamp::from_second(first_use.cast_signed()).unwrap();
        let key = generate(KeyPurpose::Sealing, first_use).unwrap();
        write_new(folder.path(), &key).unwrap();
    };
    add_key(START - 1);
    let mut keys = Keys::ephemeral(clock.now()).unwrap();
    let times = Times {
        max_age: 2 * day,
        ..Times::default()
    };
    keys.sealing = KeyStore::open(folder.path().to_owned(), clock.now(), times).unwrap();
    add_key(START + 2 * day.as_secs());
    keys.sealing.reload(clock.now()).unwrap();
    let iam = Arc::new(ScriptedIam::default());
    let policy = policy();
    let iams = vec![iam_parts(iam.clone(), policy.iam)];
    let gateway = TestGateway::with_keys(iam, iams, clock, Arc::new(keys), policy.gateway);
    gateway.clock.advance(4 * day);
    gateway.end_upstream_session("upstream");
    assert_eq!(gateway.inner.replica.revocations.count(), 2);
}
