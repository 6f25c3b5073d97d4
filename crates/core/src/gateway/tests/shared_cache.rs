//! Cached data that replicas share, independent of the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iam_adapters::claims::CLAIMS_BYTES_MAX;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use iam_adapters::{ClaimSources, Claims, Clock as _, IamError, Introspection};
use jiff::Timestamp;
use serde_json::json;
use test_support::ManualClock;
use tokio::sync::Notify;

use super::recorded::Recorded;
use super::test_gateway::{
    LIVENESS, MILLISECOND, Policies, START, Session, TestGateway, claims, iam_parts, just_before,
    policy, without_refresh,
};
use crate::Keys;
use crate::error::InvalidSession;
use crate::identifiers::IdentifierKey;
use crate::introspection_cache::shared::{CLOCK_DIFFERENCE, ENTRY_BYTES_MAX};
use crate::keys::{
    Algorithm, Key as _, KeyFile, KeyPurpose, KeySet, SealingKey, SigningKey, generate,
};
use crate::replica_state::Replicas;
use crate::results::{DataSource, LookUp};
use crate::revocations::RevocationId;
use crate::shared_cache::{LookUpFuture, SharedCache, Stored};
use test_support::scripted_iam::{Reply, ScriptedIam};

const SECOND: Duration = Duration::from_secs(1);

/// A store with a clock of its own, to which a test has full access.
#[derive(Debug)]
pub(super) struct MemoryCache {
    clock: Arc<ManualClock>,
    /// With the time at which they expire.
    pub(super) entries: Mutex<HashMap<RevocationId, (Vec<u8>, Duration)>>,
    look_ups: Mutex<Vec<RevocationId>>,
    /// Those of the gateways.
    events: Mutex<Vec<Arc<Recorded>>>,
    /// If set, each look-up waits for it.
    hold: Mutex<Option<Arc<Notify>>>,
}

impl MemoryCache {
    /// Without entries and gateways.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::new(ManualClock::at(Duration::from_secs(START))),
            entries: Mutex::default(),
            look_ups: Mutex::default(),
            events: Mutex::default(),
            hold: Mutex::default(),
        })
    }

    /// The gateway, started again as one that shares its data.
    pub(super) fn join(self: &Arc<Self>, gateway: &TestGateway) -> TestGateway {
        let gateway = gateway.sharing(Replicas {
            cache: Some(Arc::<Self>::clone(self)),
            ..Replicas::default()
        });
        self.events.lock().unwrap().push(gateway.events.clone());
        gateway
    }

    fn look_ups(&self) -> usize {
        self.look_ups.lock().unwrap().len()
    }

    /// The id of the last look-up.
    pub(super) fn last_name(&self) -> RevocationId {
        *self.look_ups.lock().unwrap().last().unwrap()
    }

    /// The results of the look-ups since the last call, of one gateway after the other.
    pub(super) fn results(&self) -> Vec<LookUp> {
        let events = self.events.lock().unwrap();
        events.iter().flat_map(|events| events.look_ups()).collect()
    }

    /// The only entry.
    pub(super) fn only(&self) -> (RevocationId, Vec<u8>) {
        let entries = self.entries.lock().unwrap();
        let [(id, (entry, _))] = entries.iter().collect::<Vec<_>>()[..] else {
            panic!("{} entries", entries.len());
        };
        (*id, entry.clone())
    }

    /// Stores an entry as if it were new.
    pub(super) fn renew(&self, id: RevocationId, entry: Vec<u8>) {
        self.put(id, entry, LIVENESS);
    }

    fn advance(&self, gateways: &[&TestGateway], by: Duration) {
        self.clock.advance(by);
        for gateway in gateways {
            gateway.clock.advance(by);
        }
    }
}

impl SharedCache for MemoryCache {
    fn get(&self, id: RevocationId) -> LookUpFuture<'_> {
        self.look_ups.lock().unwrap().push(id);
        let now = self.clock.now().monotonic;
        let entry = self.entries.lock().unwrap().get(&id).cloned();
        let stored = entry.and_then(|(entry, expires_at)| {
            let remaining = expires_at.checked_sub(now).filter(|left| !left.is_zero())?;
            Some(Stored { entry, remaining })
        });
        let hold = self.hold.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(hold) = hold {
                hold.notified().await;
            }
            stored.ok_or(LookUp::Miss)
        })
    }

    fn put(&self, id: RevocationId, entry: Vec<u8>, lifetime: Duration) {
        let expires_at = self.clock.now().monotonic + lifetime;
        self.entries.lock().unwrap().insert(id, (entry, expires_at));
    }
}

/// A replica with these keys and a clock of its own.
pub(super) fn replica_of(here: &TestGateway, keys: Arc<Keys>, policy: Policies) -> TestGateway {
    let clock = Arc::new(ManualClock::at(here.inner.replica.clock.now().unix));
    let iams = vec![iam_parts(here.iam.clone(), policy.iam)];
    TestGateway::with_keys(here.iam.clone(), iams, clock, keys, policy.gateway)
}

/// Two replicas with the same keys, whose clocks agree, and their store.
pub(super) fn replicas(policy: Policies) -> (TestGateway, TestGateway, Arc<MemoryCache>) {
    let cache = MemoryCache::new();
    let here = cache.join(&TestGateway::with(ScriptedIam::default(), policy));
    let keys = Arc::clone(&here.keys);
    let there = cache.join(&replica_of(&here, keys, here.policy()));
    (here, there, cache)
}

async fn source(gateway: &TestGateway, session: &Session) -> DataSource {
    gateway.exchange(session, "read").await.unwrap().source
}

#[tokio::test]
async fn first_exchange_at_another_replica_after_a_login_does_not_call_the_iam() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let exchanged = there.exchange(&session, "read write admin").await.unwrap();
    assert_eq!(
        (exchanged.source, &*exchanged.scope),
        (DataSource::Shared, "read write")
    );
    assert_eq!(source(&there, &session).await, DataSource::Hit);
    assert_eq!(source(&here, &session).await, DataSource::Hit);
    assert_eq!(here.introspections(), 0);
    // Local data needs no look-up.
    assert_eq!(cache.results(), [LookUp::Hit]);
}

#[tokio::test]
async fn introspection_at_one_replica_is_used_by_the_others() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    cache.advance(&[&here, &there], LIVENESS);
    here.iam.permit("alice", "write");
    assert_eq!(here.granted(&session).await.unwrap(), "write");
    assert_eq!(here.introspections(), 1);
    assert_eq!(there.granted(&session).await.unwrap(), "write");
    assert_eq!(here.introspections(), 1);
    assert_eq!(cache.results(), [LookUp::Miss, LookUp::Hit]);
}

/// The data has one age, wherever it is. So the replicas together introspect as often as one.
#[tokio::test]
async fn replicas_together_introspect_once_in_each_freshness() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let step = SECOND / 4;
    let freshnesses = 10;
    for _ in 0..freshnesses * 30 * 4 {
        cache.advance(&[&here, &there], step);
        for gateway in [&there, &here] {
            gateway.granted(&session).await.unwrap();
        }
    }
    let introspections = here.introspections();
    let at_most = usize::try_from(freshnesses * 11 / 10 + 1).unwrap();
    assert!((9..=at_most).contains(&introspections), "{introspections}");
}

#[tokio::test]
async fn shared_data_is_not_used_beyond_the_freshness_at_any_replica() {
    for at in [0, 5, 20, 25] {
        let (here, there, cache) = replicas(policy());
        let session = here.log_in("alice").await;
        let at = Duration::from_secs(at);
        cache.advance(&[&here, &there], at);
        assert_eq!(source(&there, &session).await, DataSource::Shared);
        let fresh = without_refresh(LIVENESS).saturating_sub(CLOCK_DIFFERENCE + MILLISECOND);
        cache.advance(&[&here, &there], fresh.saturating_sub(at));
        assert_eq!(source(&there, &session).await, DataSource::Hit);
        let limit = LIVENESS.saturating_sub(CLOCK_DIFFERENCE + fresh);
        cache.advance(&[&here, &there], limit);
        here.iam.end("secret-1");
        let refused = there.granted(&session).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()));
    }
}

#[tokio::test]
async fn shared_data_honours_the_age_of_permissions() {
    let mut policy = policy();
    policy.iam.freshness.permissions = SECOND * 10;
    let (here, there, cache) = replicas(policy);
    let session = here.log_in("alice").await;
    cache.advance(&[&here, &there], (SECOND * 8).saturating_sub(MILLISECOND));
    assert_eq!(source(&there, &session).await, DataSource::Shared);
    let (here, there, cache) = replicas(here.policy());
    let session = here.log_in("alice").await;
    cache.advance(&[&here, &there], SECOND * 9);
    here.iam.permit("alice", "write");
    assert_eq!(there.granted(&session).await.unwrap(), "write");
    assert_eq!(here.introspections(), 1);
}

/// The lifetime in the store does not bound it, because the store renews it.
#[tokio::test]
async fn replayed_entry_is_not_used_beyond_the_freshness() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let (id, entry) = cache.only();
    here.iam.end("secret-1");
    cache.advance(
        &[&here, &there],
        without_refresh(LIVENESS).saturating_sub(CLOCK_DIFFERENCE + MILLISECOND),
    );
    cache.renew(id, entry.clone());
    assert_eq!(
        source(&there, &session).await,
        DataSource::Shared,
        "the control"
    );
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let (id, entry) = cache.only();
    here.iam.end("secret-1");
    cache.advance(&[&here, &there], LIVENESS.saturating_sub(CLOCK_DIFFERENCE));
    cache.renew(id, entry);
    there.granted(&session).await.unwrap_err();
    assert_eq!(cache.results(), [LookUp::Stale]);
}

/// By its clock alone, this replica would use the entry for three seconds more.
#[tokio::test]
async fn lifetime_in_the_store_bounds_the_age_if_the_clock_of_the_other_replica_is_ahead() {
    let (here, there, cache) = replicas(policy());
    there.set_wall_clock_back(SECOND * 5 + CLOCK_DIFFERENCE);
    let session = here.log_in("alice").await;
    // Older than any spread of the freshness allows.
    cache.advance(
        &[&here, &there],
        LIVENESS.saturating_sub(Duration::from_nanos(1)),
    );
    here.iam.end("secret-1");
    there.granted(&session).await.unwrap_err();
    assert_eq!(cache.results(), [LookUp::Stale]);
}

#[tokio::test]
async fn entry_from_further_in_the_future_than_the_clocks_may_differ_is_not_used() {
    for (behind, result) in [
        (CLOCK_DIFFERENCE, LookUp::Hit),
        (CLOCK_DIFFERENCE + MILLISECOND, LookUp::Invalid),
        (Duration::from_secs(3_600), LookUp::Invalid),
    ] {
        let (here, there, cache) = replicas(policy());
        there.set_wall_clock_back(behind);
        let session = here.log_in("alice").await;
        there.granted(&session).await.unwrap();
        assert_eq!(cache.results(), [result]);
        assert_eq!(here.introspections(), usize::from(result != LookUp::Hit));
    }
}

#[tokio::test]
async fn after_a_gap_shared_data_from_before_is_not_used_and_later_data_is() {
    let (here, there, cache) = replicas(policy());
    let early = here.log_in("alice").await;
    cache.advance(&[&here, &there], SECOND * 2);
    there.initial_sync_done();
    cache.advance(&[&here, &there], SECOND * 2);
    let late = here.log_in("alice").await;
    assert_eq!(source(&there, &early).await, DataSource::Miss);
    assert_eq!(source(&there, &late).await, DataSource::Shared);
    assert_eq!(cache.results(), [LookUp::Stale, LookUp::Hit]);
}

#[tokio::test]
async fn session_revoked_during_the_look_up_is_refused() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let hold = Arc::<Notify>::default();
    *cache.hold.lock().unwrap() = Some(Arc::clone(&hold));
    let exchange = there.spawn_exchange(&session);
    while cache.look_ups() == 0 {
        tokio::task::yield_now().await;
    }
    there.log_out(&session).await.unwrap();
    hold.notify_one();
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
    assert_eq!(cache.results(), [LookUp::Hit]);
}

#[tokio::test]
async fn revoked_session_is_refused_without_a_look_up() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    there.log_out(&session).await.unwrap();
    there.granted(&session).await.unwrap_err();
    assert_eq!(cache.look_ups(), 0);
}

#[tokio::test]
async fn concurrent_exchanges_of_a_session_share_one_look_up() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let hold = Arc::<Notify>::default();
    *cache.hold.lock().unwrap() = Some(Arc::clone(&hold));
    let exchanges: Vec<_> = (0..50).map(|_| there.spawn_exchange(&session)).collect();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    hold.notify_one();
    let mut sources = HashMap::<_, usize>::new();
    for exchange in exchanges {
        *sources
            .entry(exchange.await.unwrap().unwrap().source)
            .or_default() += 1;
    }
    assert_eq!(
        sources,
        HashMap::from([(DataSource::Shared, 1), (DataSource::Coalesced, 49)])
    );
    assert_eq!((cache.look_ups(), here.introspections()), (1, 0));
}

#[tokio::test]
async fn inactive_session_and_login_without_permissions_are_not_shared() {
    let iam = ScriptedIam {
        returns_permissions: false,
        ..ScriptedIam::default()
    };
    let cache = MemoryCache::new();
    let here = cache.join(&TestGateway::with(iam, policy()));
    let session = here.log_in("alice").await;
    here.iam.script(
        Operation::Introspection,
        Reply::Introspection(Introspection::Inactive),
    );
    here.granted(&session).await.unwrap_err();
    assert!(cache.entries.lock().unwrap().is_empty());
}

#[tokio::test]
async fn data_that_is_as_old_as_the_freshness_when_it_arrives_is_not_shared() {
    let (here, _, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    cache.advance(&[&here], LIVENESS);
    cache.entries.lock().unwrap().clear();
    let mut calls = here.iam.hold(Operation::Introspection);
    let exchange = here.spawn_exchange(&session);
    let call = calls.next().await;
    cache.advance(&[&here], LIVENESS);
    call.reply(Reply::Model);
    // Too old to decide, so there is one more call.
    let again = calls.next().await;
    assert!(cache.entries.lock().unwrap().is_empty());
    again.reply(Reply::Model);
    exchange.await.unwrap().unwrap();
}

#[tokio::test]
async fn entry_expires_in_the_store_when_it_is_as_old_as_the_freshness() {
    let (here, _, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let expires_at = |cache: &MemoryCache| {
        let entries = cache.entries.lock().unwrap();
        entries.values().next().unwrap().1
    };
    assert_eq!(expires_at(&cache), LIVENESS);
    cache.advance(&[&here], LIVENESS);
    let mut calls = here.iam.hold(Operation::Introspection);
    let exchange = here.spawn_exchange(&session);
    let call = calls.next().await;
    cache.advance(&[&here], SECOND);
    call.reply(Reply::Model);
    exchange.await.unwrap().unwrap();
    assert_eq!(expires_at(&cache), LIVENESS * 2);
}

#[tokio::test]
async fn permissions_and_claims_beyond_the_longest_entry_are_not_shared() {
    let names = |count: usize| {
        let names = (0..count).map(|number| format!("{number:0>64}"));
        names.collect::<Vec<_>>().join(" ")
    };
    let most = ENTRY_BYTES_MAX / 65;
    // The longest claims are as long as the names of 31 permissions.
    let long = format!(",\"claim\":\"{}\"", "x".repeat(CLAIMS_BYTES_MAX - 11));
    for (claims, count, shared) in [
        ("", most - 2, true),
        ("", most + 1, false),
        (&*long, most - 34, true),
        (&*long, most - 30, false),
    ] {
        let iam = ScriptedIam {
            claims: Claims::from_members(claims).unwrap(),
            ..ScriptedIam::default()
        };
        let cache = MemoryCache::new();
        let here = cache.join(&TestGateway::with(iam, policy()));
        here.iam.permit("alice", &names(count));
        let there = cache.join(&replica_of(&here, Arc::clone(&here.keys), policy()));
        let session = here.log_in("alice").await;
        let expected = if shared {
            DataSource::Shared
        } else {
            DataSource::Miss
        };
        let source = source(&there, &session).await;
        assert_eq!(source, expected, "{count}, {} bytes", claims.len());
    }
}

#[tokio::test]
async fn shared_data_is_used_while_the_iam_does_not_respond() {
    let mut policy = policy();
    policy.iam.freshness.stale_if_error = LIVENESS;
    let (here, there, cache) = replicas(policy);
    let session = here.log_in("alice").await;
    here.iam
        .set_outage(Some(IamError::Unreachable("refused".into())));
    cache.advance(&[&here, &there], just_before(LIVENESS));
    assert_eq!(source(&there, &session).await, DataSource::Stale);
}

fn keys(signing: &[&KeyFile]) -> Arc<Keys> {
    let secret: Vec<u8> = (0..32).collect();
    let sealing = SealingKey::new(&secret, "shared", Timestamp::UNIX_EPOCH).unwrap();
    let signing = signing
        .iter()
        .map(|file| SigningKey::from_file(file).unwrap());
    Arc::new(Keys::new(
        KeySet::new(signing.collect()).unwrap().into(),
        KeySet::new(vec![sealing]).unwrap().into(),
        Arc::new(IdentifierKey::new(b"a key")),
    ))
}

fn signing_key(algorithm: Algorithm, first_use: i64) -> KeyFile {
    let first_use = Timestamp::from_second(first_use).unwrap();
    generate(KeyPurpose::Signing(algorithm), first_use).unwrap()
}

#[tokio::test]
async fn entries_open_with_every_key_of_the_set_and_with_no_other() {
    let here = TestGateway::new();
    for algorithm in Algorithm::ALL {
        let [old, new, other] = [0, 1, 0].map(|first_use| signing_key(algorithm, first_use));
        let cache = MemoryCache::new();
        let replica = |keys| cache.join(&replica_of(&here, keys, policy()));
        let writer = replica(keys(&[&old]));
        let (before, after) = (replica(keys(&[&old])), replica(keys(&[&old, &new])));
        let (removed, unrelated) = (replica(keys(&[&new])), replica(keys(&[&other])));
        let session = writer.log_in("alice").await;
        let (id, entry) = cache.only();
        for (reader, result) in [
            (&before, LookUp::Hit),
            (&after, LookUp::Hit),
            (&removed, LookUp::Miss),
            (&unrelated, LookUp::Miss),
        ] {
            cache.renew(id, entry.clone());
            reader.granted(&session).await.unwrap();
            assert_eq!(cache.results(), [result], "{}", algorithm.name());
        }
    }
}

#[tokio::test]
async fn entries_in_the_store_reveal_no_session_no_user_and_no_permission() {
    let (here, there, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    there.granted(&session).await.unwrap();
    let (id, entry) = cache.only();
    let seen = [&id.as_bytes()[..], &entry].concat();
    let seen = String::from_utf8_lossy(&seen);
    for secret in [
        &*session.id,
        &*session.token,
        "alice",
        "read",
        "upstream",
        "secret",
    ] {
        assert!(!seen.contains(secret), "{seen}");
    }
    // Nor does it see that two entries are equal.
    cache.entries.lock().unwrap().clear();
    cache.advance(&[&here], LIVENESS);
    here.granted(&session).await.unwrap();
    let (same_id, other_entry) = cache.only();
    assert_eq!(id, same_id);
    assert_eq!(entry.len(), other_entry.len());
    assert_ne!(entry, other_entry);
}

#[tokio::test]
async fn token_has_the_claims_that_the_iam_states_at_every_replica() {
    let iam = ScriptedIam {
        claims: Claims::from_members(r#","department":"sales""#).unwrap(),
        ..ScriptedIam::default()
    };
    let cache = MemoryCache::new();
    let here = cache.join(&TestGateway::with(iam, policy()));
    let there = cache.join(&replica_of(&here, Arc::clone(&here.keys), here.policy()));
    let session = here.log_in("alice").await;
    for (gateway, source) in [
        (&there, DataSource::Shared),
        (&there, DataSource::Hit),
        (&here, DataSource::Hit),
    ] {
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, source);
        assert_eq!(claims(&exchanged)["department"], "sales", "{source:?}");
    }
    cache.advance(&[&here, &there], LIVENESS);
    let exchanged = here.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
    assert_eq!(claims(&exchanged)["department"], "sales");
}

#[tokio::test]
async fn replica_with_other_claims_does_not_use_the_shared_data() {
    let table = |required: bool| {
        let table = json!({"department": {"member": "department", "required": required}});
        let claims: ClaimSources = serde_json::from_value(table).unwrap();
        let mut policies = policy();
        policies.iam.claims = claims;
        policies
    };
    for (other, source) in [
        (table(false), DataSource::Shared),
        (table(true), DataSource::Miss),
        (policy(), DataSource::Miss),
    ] {
        let cache = MemoryCache::new();
        let here = cache.join(&TestGateway::with(ScriptedIam::default(), table(false)));
        let there = cache.join(&replica_of(&here, Arc::clone(&here.keys), other));
        let session = here.log_in("alice").await;
        let exchanged = there.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, source);
    }
}
