use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{Claims, PermissionAge};

use super::login::faults;
use super::test_gateway::{
    LIVENESS, MILLISECOND, PERMISSIONS, START, TestGateway, active, claims, just_before, policy,
    refresh_period, with_claims, without_refresh,
};
use crate::error::InvalidSession;
use crate::results::DataSource;
use crate::session_id::SessionId;
use test_support::scripted_iam::ScriptedIam;

#[tokio::test]
async fn liveness_is_refreshed_within_the_last_tenth_of_its_freshness() {
    let (gateway, session) = TestGateway::with_session().await;
    for introspections in 0..4 {
        gateway.clock.advance(without_refresh(LIVENESS));
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Hit);
        assert_eq!(gateway.introspections(), introspections);
        gateway.clock.advance(refresh_period(LIVENESS));
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Miss);
        assert_eq!(gateway.introspections(), introspections + 1);
    }
}

#[tokio::test]
async fn permissions_are_refreshed_within_the_last_tenth_of_their_freshness() {
    let gateway = TestGateway::new();
    gateway.log_in("alice").await;
    gateway.clock.advance(without_refresh(PERMISSIONS));
    // A login without permissions refreshes only liveness.
    let cache = &gateway.iam().introspection_cache;
    let key = cache.session_key(SessionId::DUMMY, b"a session");
    let without_permissions = cache.fingerprint(key, "a token", "alice");
    let now = gateway.inner.replica.clock.now();
    cache.insert(&without_permissions, now, None);
    assert!(cache.fresh(&without_permissions.session, now).is_some());
    gateway.clock.advance(refresh_period(PERMISSIONS));
    let now = gateway.inner.replica.clock.now();
    assert!(cache.fresh(&without_permissions.session, now).is_none());
}

#[tokio::test]
async fn sessions_of_one_user_share_permissions_and_not_liveness() {
    let gateway = TestGateway::new();
    let (one, other) = (gateway.log_in("alice").await, gateway.log_in("alice").await);
    gateway.clock.advance(LIVENESS);
    gateway.iam.permit("alice", "write");
    assert_eq!(gateway.granted(&one).await.unwrap(), "write");
    assert_eq!(gateway.introspections(), 1);
    let exchanged = gateway.exchange(&other, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
    gateway.iam.permit("alice", "");
    gateway.clock.advance(without_refresh(LIVENESS));
    // Both use the permissions of the last introspection.
    for session in [&one, &other] {
        let exchanged = gateway.exchange(session, "read write").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Hit);
        assert_eq!(exchanged.scope, "write");
    }
    gateway.iam.end("secret-1");
    gateway.clock.advance(refresh_period(LIVENESS));
    let ended = gateway.granted(&one).await;
    assert_eq!(ended, Err(InvalidSession::Ended.into()));
    assert_eq!(gateway.granted(&other).await.unwrap(), "");
}

/// The IAM repeats the permissions and claims of each login.
#[tokio::test]
async fn sessions_of_one_user_have_each_the_permissions_and_claims_of_its_login() {
    let iam = ScriptedIam {
        permission_age: PermissionAge::Login,
        ..ScriptedIam::default()
    };
    let gateway = TestGateway::with(iam, policy());
    let early = gateway.log_in("alice").await;
    gateway.iam.permit("alice", "read");
    gateway.clock.advance(PERMISSIONS);
    let late = gateway.log_in("alice").await;
    let of_early = Claims::from_members(r#","login":"early""#).unwrap();
    let of_late = Claims::from_members(r#","login":"late""#).unwrap();

    let introspected = with_claims("alice", "read write", of_early);
    gateway.iam.script(Operation::Introspection, introspected);
    gateway.clock.advance(LIVENESS / 2);
    let exchanged = gateway.exchange(&early, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
    assert_eq!(exchanged.scope, "read write");
    assert_eq!(claims(&exchanged)["login"], "early");
    let exchanged = gateway.exchange(&late, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Hit);
    assert_eq!(exchanged.scope, "read");
    assert!(claims(&exchanged).get("login").is_none());

    let introspected = with_claims("alice", "read", of_late);
    gateway.iam.script(Operation::Introspection, introspected);
    gateway.clock.advance(LIVENESS / 2);
    let exchanged = gateway.exchange(&late, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
    assert_eq!(claims(&exchanged)["login"], "late");
    let exchanged = gateway.exchange(&early, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Hit);
    assert_eq!(exchanged.scope, "read write");
    assert_eq!(claims(&exchanged)["login"], "early");
}

#[tokio::test]
async fn late_response_of_an_older_introspection_does_not_restore_removed_permissions() {
    let gateway = TestGateway::new();
    let (one, other) = (gateway.log_in("alice").await, gateway.log_in("alice").await);
    gateway.clock.advance(LIVENESS);
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (early, early_call) = gateway.exchange_in_flight(&one, &mut calls).await;
    gateway.clock.advance(MILLISECOND);
    let (late, late_call) = gateway.exchange_in_flight(&other, &mut calls).await;
    late_call.reply(active("alice", "read"));
    assert_eq!(late.await.unwrap().unwrap().scope, "read");
    early_call.reply(active("alice", "read write"));
    early.await.unwrap().unwrap();
    for session in [&one, &other] {
        let exchanged = gateway.exchange(session, "read write").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Hit);
        assert_eq!(exchanged.scope, "read");
    }
}

#[tokio::test]
async fn wall_clock_set_back_by_more_than_a_minute_makes_cached_data_stale() {
    for (back, source) in [
        (Duration::from_secs(60), DataSource::Hit),
        (Duration::from_secs(60) + MILLISECOND, DataSource::Miss),
        (Duration::from_secs(86_400), DataSource::Miss),
    ] {
        let (gateway, session) = TestGateway::with_session().await;
        gateway.set_wall_clock_back(back);
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, source, "{back:?}");
    }
}

#[tokio::test]
async fn wall_clock_set_forward_ages_cached_data() {
    let (gateway, session) = TestGateway::with_session().await;
    gateway
        .clock
        .set_wall(Duration::from_secs(START) + LIVENESS);
    let exchanged = gateway.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
}

/// Early refreshes only spread the load; the data is still valid.
#[tokio::test]
async fn failed_early_refresh_leaves_data_valid_for_its_full_freshness() {
    for fault in faults() {
        let (gateway, session) = TestGateway::with_session().await;
        gateway.iam.set_outage(Some(fault.clone()));
        gateway.clock.advance(just_before(LIVENESS));
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.source, DataSource::Hit, "{fault}");
        gateway.clock.advance(MILLISECOND);
        gateway.granted(&session).await.unwrap_err();
    }
}

#[tokio::test]
async fn inactive_in_an_early_refresh_takes_effect_at_once() {
    let gateway = TestGateway::new();
    // Session ids are random, so at least one of these is refreshed early.
    for number in 1..=64 {
        let session = gateway.log_in("alice").await;
        gateway.iam.end(&format!("secret-{number}"));
        gateway.clock.advance(just_before(LIVENESS));
        let before = gateway.introspections();
        let exchanged = gateway.granted(&session).await;
        if gateway.introspections() > before {
            assert_eq!(exchanged, Err(InvalidSession::Ended.into()));
            return;
        }
    }
    panic!("no early refresh");
}

/// A prime number of milliseconds, so that steps fall on both sides of every boundary.
const STEP: Duration = Duration::from_millis(997);

#[tokio::test]
async fn end_at_the_iam_takes_effect_within_the_freshness_at_any_time() {
    for ends_at_step in 0..40 {
        let (gateway, session) = TestGateway::with_session().await;
        let mut ended_at = None;
        for step in 0..80 {
            if step == ends_at_step {
                gateway.iam.end("secret-1");
                ended_at = Some(gateway.inner.replica.clock.now());
            }
            let exchanged = gateway.granted(&session).await;
            let since = ended_at.map(|at| gateway.inner.replica.clock.now().since(at));
            if since.is_some_and(|since| since >= LIVENESS) {
                assert_eq!(exchanged, Err(InvalidSession::Ended.into()), "{since:?}");
            }
            gateway.clock.advance(STEP);
        }
    }
}

#[tokio::test]
async fn no_token_has_a_permission_that_was_removed_before_the_permission_freshness() {
    let (gateway, session) = TestGateway::with_session().await;
    let mut started = Vec::new();
    for step in 0..400_usize {
        // The user has exactly one permission, another one at each step.
        gateway.iam.permit("alice", &format!("p{step}"));
        started.push(gateway.inner.replica.clock.now());
        let from = step.saturating_sub(63);
        let names: Vec<_> = (from..=step).map(|step| format!("p{step}")).collect();
        let exchanged = gateway.exchange(&session, &names.join(" ")).await.unwrap();
        // Nothing is granted before the first introspection: the login was before all steps.
        if let Some(known) = exchanged.scope.strip_prefix('p') {
            let missing = started.get(known.parse::<usize>().unwrap() + 1);
            let now = gateway.inner.replica.clock.now();
            let ended_for = missing.map(|missing| now.since(*missing));
            assert!(ended_for.unwrap_or_default() < PERMISSIONS, "{ended_for:?}");
        } else {
            assert!(gateway.introspections() == 0, "{step}");
        }
        gateway.clock.advance(STEP);
    }
    assert!(gateway.introspections() >= 12);
}
