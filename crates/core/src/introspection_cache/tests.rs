use std::collections::HashSet;
use std::sync::LazyLock;

use aws_lc_rs::rand::SystemRandom;
use iam_adapters::resilient::Operation;
use iam_adapters::{Claims, Clock as _, Permission, Subject};
use proptest::prelude::*;
use test_support::ManualClock;

use super::*;
use crate::error::InvalidSession;
use crate::gateway::tests::test_gateway::{login_limits, replica_state};
use crate::gateway_keys::Keys;
use crate::keys::DerivationKey;
use crate::replica_state::Replicas;
use crate::revocations::{Cause, RevocationKey};
use crate::session::TOKEN_BYTES_MAX;
use crate::session_id::SessionId;
use test_support::scripted_iam::{Reply, ScriptedIam};

const FRESHNESS: Freshness = Freshness {
    liveness: Duration::from_secs(30),
    permissions: Duration::from_secs(60),
    stale_if_error: Duration::ZERO,
};
const MIB: u64 = 1024 * 1024;

/// Caches and the state of a replica.
fn state(max_bytes: u64) -> (Caches, Arc<ReplicaState>) {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let keys = Arc::new(Keys::ephemeral(clock.now()).unwrap());
    let (events, replicas) = (Arc::default(), Replicas::default());
    let replica = replica_state(&clock, keys, login_limits(), &events, replicas);
    (Caches::new(max_bytes, &[FRESHNESS]), Arc::new(replica))
}

fn cache_in(
    (caches, replica): (Caches, Arc<ReplicaState>),
    iam: ScriptedIam,
) -> IntrospectionCache {
    let claims = &ClaimSources::NONE;
    IntrospectionCache::new(Arc::new(iam), FRESHNESS, claims, caches, replica)
}

fn cache_of(iam: ScriptedIam, max_bytes: u64) -> IntrospectionCache {
    cache_in(state(max_bytes), iam)
}

fn cache() -> IntrospectionCache {
    cache_of(ScriptedIam::default(), MIB)
}

/// Of a session with this content. All have the same id.
fn fingerprint_in(cache: &IntrospectionCache, content: &[u8], subject: &str) -> Fingerprint {
    let key = cache.session_key(SessionId::DUMMY, content);
    cache.fingerprint(key, "token", subject)
}

fn permissions(names: &[&str]) -> Arc<UserData> {
    let names = names.iter().map(|name| Permission::parse(name).unwrap());
    Arc::new(UserData {
        permissions: names.collect(),
        claims: Claims::NONE,
    })
}

pub(super) fn at(millis: u64) -> Moment {
    Moment {
        unix: Duration::from_secs(1_800_000_000) + Duration::from_millis(millis),
        monotonic: Duration::from_millis(millis),
    }
}

fn subject_of(name: &'static str, issuer: &'static str, subject: &str) -> Digest {
    // Its keys take much longer than the hash, which does not depend on it.
    static STATE: LazyLock<(Caches, Arc<ReplicaState>)> = LazyLock::new(|| state(MIB));
    let iam = ScriptedIam {
        name,
        issuer,
        ..ScriptedIam::default()
    };
    let cache = cache_in(STATE.clone(), iam);
    fingerprint_in(&cache, b"token", subject).subject
}

#[test]
fn subjects_of_different_issuers_or_adapters_differ() {
    let all = [
        subject_of("keycloak", "https://a.test", "s"),
        subject_of("keycloak", "https://b.test", "s"),
        subject_of("oidc", "https://a.test", "s"),
    ];
    assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    assert_eq!(all[0], subject_of("keycloak", "https://a.test", "s"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]
    /// Moves characters from one part to the next, and puts lengths into the parts.
    #[test]
    fn cache_keys_of_subjects_are_unambiguous_in_their_parts(
        one in ("[a\0\u{1}]{0,3}", "[a\0\u{1}]{0,9}", "[a\0\u{1}]{0,9}"),
        other in ("[a\0\u{1}]{0,3}", "[a\0\u{1}]{0,9}", "[a\0\u{1}]{0,9}"),
        from in 0_usize..20,
        to in 0_usize..20,
    ) {
        let leak = |text: &str| -> &'static str { text.to_owned().leak() };
        let name = |(name, issuer, subject): &(String, String, String)| {
            subject_of(leak(name), leak(issuer), subject)
        };
        prop_assert_eq!(name(&one) == name(&other), one == other);
        let run = [&*one.0, &*one.1, &*one.2].concat();
        let (from, to) = (from.min(run.len()), to.min(run.len()));
        let (from, to) = (from.min(to), from.max(to));
        let recut = (run[..from].to_owned(), run[from..to].to_owned(), run[to..].to_owned());
        prop_assert_eq!(name(&one) == name(&recut), one == recut);
    }
}

#[test]
fn cache_key_covers_every_byte_of_the_content() {
    let cache = cache();
    let long = "x".repeat(TOKEN_BYTES_MAX);
    let mut names = HashSet::from([fingerprint_in(&cache, long.as_bytes(), "s").session]);
    for at in 0..long.len() {
        let mut other = long.clone();
        other.replace_range(at..=at, "y");
        names.insert(fingerprint_in(&cache, other.as_bytes(), "s").session);
        names.insert(fingerprint_in(&cache, &long.as_bytes()[..at], "s").session);
    }
    assert_eq!(names.len(), 2 * long.len() + 1);
}

#[test]
fn cached_data_needs_both_liveness_and_permissions() {
    let cache = cache();
    let fingerprint = fingerprint_in(&cache, b"token", "s");
    assert!(cache.fresh(&fingerprint.session, at(0)).is_none());
    cache.insert(&fingerprint, at(0), None);
    assert!(cache.fresh(&fingerprint.session, at(0)).is_none());
    let other_session = fingerprint_in(&cache, b"other token", "s");
    cache.insert(&other_session, at(0), Some(permissions(&["read"])));
    assert!(cache.fresh(&fingerprint.session, at(0)).is_some());
    let other = fingerprint_in(&cache, b"third token", "s");
    assert!(cache.fresh(&other.session, at(0)).is_none());
}

#[test]
fn data_of_the_introspection_that_started_last_is_kept_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let cache = cache();
        let fingerprint = fingerprint_in(&cache, b"token", "s");
        for requested_at in order {
            let held = ["zero", "one", "two"][usize::try_from(requested_at).unwrap()];
            cache.insert(&fingerprint, at(requested_at), Some(permissions(&[held])));
        }
        let held = cache.fresh(&fingerprint.session, at(2)).unwrap();
        assert!(held.permissions.contains("two"), "{order:?}");
    }
}

#[test]
fn of_two_introspections_at_one_time_the_last_response_is_kept() {
    let cache = cache();
    let fingerprint = fingerprint_in(&cache, b"token", "s");
    cache.insert(&fingerprint, at(0), Some(permissions(&["read", "write"])));
    cache.insert(&fingerprint, at(0), Some(permissions(&["read"])));
    let held = cache.fresh(&fingerprint.session, at(0)).unwrap();
    assert!(!held.permissions.contains("write"));
}

#[test]
fn refreshes_of_simultaneous_data_are_spread_over_the_last_tenth_of_its_freshness() {
    const MANY: usize = 20_000;
    let cache = cache_of(ScriptedIam::default(), 64 * MIB);
    let names: Vec<_> = (0..MANY)
        .map(|number| {
            let id = SessionId::generate(&SystemRandom::new()).unwrap();
            let key = cache.session_key(id, b"content");
            cache.fingerprint(key, "token", &format!("{number}"))
        })
        .collect();
    let held = permissions(&["read"]);
    for name in &names {
        cache.insert(name, at(0), Some(Arc::clone(&held)));
    }
    let fresh = |millis| {
        let fresh = |name: &&Fingerprint| cache.fresh(&name.session, at(millis)).is_some();
        names.iter().filter(fresh).count()
    };
    assert_eq!(fresh(27_000), MANY);
    let mut before = MANY;
    for tenth in 1..=10 {
        let left = fresh(27_000 + tenth * 300);
        let expired = before - left;
        assert!(
            (MANY * 8 / 100..=MANY * 12 / 100).contains(&expired),
            "{expired}"
        );
        before = left;
    }
    assert_eq!(before, 0);
}

#[test]
fn spread_shortens_the_freshness_by_at_most_a_tenth() {
    for first in 0..=u8::MAX {
        let mut name = [0; SHA256_OUTPUT_LEN];
        name[0] = first;
        for freshness in [1, 999, 30_000_000, 60_000_000, 86_400_000_000] {
            let freshness = Duration::from_micros(freshness);
            let spread = spread(freshness, &name);
            assert!(spread <= freshness && spread >= freshness * 9 / 10);
        }
    }
}

fn request(fingerprint: Fingerprint) -> IntrospectionRequest {
    let id = SessionId::generate(&SystemRandom::new()).unwrap();
    IntrospectionRequest {
        fingerprint,
        revocation: Revocation::of_session(
            RevocationKey::derive(&DerivationKey::new(
                b"secret",
                "k1",
                jiff::Timestamp::UNIX_EPOCH,
            ))
            .session(id),
            Cause::Upstream,
            1_900_000_000,
        ),
        upstream: UpstreamSession {
            subject: Subject::new("s").unwrap(),
            id: "upstream".to_owned(),
            secret: "secret".into(),
        },
    }
}

#[tokio::test]
async fn data_that_arrived_just_before_is_not_introspected_again() {
    let iam = ScriptedIam::default();
    iam.script(Operation::Introspection, Reply::Panic);
    let cache = Arc::new(cache_of(iam, MIB));
    let fingerprint = fingerprint_in(&cache, b"token", "s");
    cache.insert(&fingerprint, at(0), Some(permissions(&["read"])));
    let active = cache.introspect(request(fingerprint), at(0)).await.unwrap();
    assert!(active.user.permissions.contains("read"));
    assert_eq!(active.source, DataSource::Coalesced);
}

#[tokio::test]
async fn inactive_removes_liveness_but_not_the_permissions_of_the_user() {
    let iam = ScriptedIam::default();
    iam.end("secret");
    let cache = Arc::new(cache_of(iam, MIB));
    let fingerprint = fingerprint_in(&cache, b"token", "s");
    cache.insert(&fingerprint, at(0), None);
    let over = cache.introspect(request(fingerprint), at(0)).await.err();
    assert_eq!(over, Some(InvalidSession::Ended.into()));
    let other_session = fingerprint_in(&cache, b"other token", "s");
    cache.insert(&other_session, at(0), Some(permissions(&["read"])));
    assert!(cache.fresh(&fingerprint.session, at(0)).is_none());
}

#[test]
fn caches_stay_within_their_size_limit() {
    let names: Vec<_> = (0..20).map(|n| format!("permission:{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let claims = format!(",\"claim\":\"{}\"", "x".repeat(1_000));
    let with_claims = UserData {
        permissions: permissions(&[]).permissions.clone(),
        claims: Claims::from_members(&claims).unwrap(),
    };
    for user in [permissions(&names), Arc::new(with_claims)] {
        let cache = cache_of(ScriptedIam::default(), 256 * 1024);
        for number in 0..2_000 {
            let fingerprint =
                fingerprint_in(&cache, number.to_string().as_bytes(), &format!("s{number}"));
            cache.insert(&fingerprint, at(0), Some(Arc::clone(&user)));
        }
        cache.caches.liveness.run_pending_tasks();
        cache.caches.permissions.run_pending_tasks();
        let (sessions, users) = (&cache.caches.liveness, &cache.caches.permissions);
        for weight in [sessions.weighted_size(), users.weighted_size()] {
            assert!((1..=128 * 1024).contains(&weight), "{weight}");
        }
        assert!(sessions.entry_count() < 128 * 1024 / 400);
        let content = u64::try_from(user.heap_size()).unwrap();
        assert!(users.entry_count() * content < 128 * 1024, "{content}");
    }
}

#[test]
fn debug_output_contains_no_subject_and_no_permission() {
    let cache = cache();
    let fingerprint = fingerprint_in(&cache, b"token", "the-subject");
    cache.insert(&fingerprint, at(0), Some(permissions(&["anything"])));
    let shown = format!("{cache:?}");
    assert!(!shown.contains("the-subject") && !shown.contains("anything"));
}

#[test]
fn weight_of_an_entry_is_the_size_of_key_value_and_what_the_cache_adds() {
    assert_eq!(weight(0), u32::try_from(ENTRY_OVERHEAD).unwrap());
    assert_eq!(weight(1_000), weight(0) + 1_000);
    assert_eq!(weight(usize::try_from(u32::MAX).unwrap()), u32::MAX);
}
