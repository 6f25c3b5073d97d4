//! Revocations that replicas exchange, independent of the transport.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Introspection};
use test_support::ManualClock;

use super::test_gateway::{LIVENESS, MILLISECOND, START, TestGateway, active, policy};
use crate::error::{InvalidSession, NotReady};
use crate::replica_state::Replicas;
use crate::revocations::Revocation;
use crate::revocations::{Delivered, RevocationPublisher};
use test_support::scripted_iam::{Reply, ScriptedIam};

/// Stores the revocations it receives, as Redis does.
#[derive(Debug, Default)]
pub(super) struct RecordingReplicas {
    sent: Mutex<Vec<Revocation>>,
    is_unreachable: bool,
    /// The time that it takes to respond, by this clock.
    delay: Option<(Arc<ManualClock>, Duration)>,
}

impl RevocationPublisher for RecordingReplicas {
    fn publish(&self, revocation: &Revocation, is_unpublished: bool) -> Delivered {
        if let Some((clock, delay)) = &self.delay {
            clock.advance(*delay);
        }
        if is_unpublished && !self.is_unreachable {
            self.sent.lock().unwrap().push(*revocation);
        }
        Box::pin(std::future::ready(()))
    }

    fn is_pending(&self, _: &Revocation) -> bool {
        self.is_unreachable
    }

    fn pending(&self) -> usize {
        self.is_unreachable.into()
    }
}

/// This gateway, started again as a replica that sends through these and has not read what others sent.
pub(super) fn joined(gateway: &TestGateway, replicas: Arc<dyn RevocationPublisher>) -> TestGateway {
    gateway.sharing(Replicas {
        revocations: Some(replicas),
        ..Replicas::default()
    })
}

/// The same, after the first reading, which found nothing.
pub(super) fn serving(
    gateway: &TestGateway,
    replicas: Arc<dyn RevocationPublisher>,
) -> TestGateway {
    let gateway = joined(gateway, replicas);
    let revocations = &gateway.inner.replica.revocations;
    revocations.serve_without_catching_up();
    gateway
}

impl RecordingReplicas {
    /// The same, with the time of the store.
    pub(super) fn of(gateway: &TestGateway) -> (TestGateway, Arc<Self>) {
        let replicas = Arc::<Self>::default();
        let gateway = serving(gateway, Arc::<Self>::clone(&replicas));
        let now = gateway.inner.replica.clock.now().unix;
        measure(&gateway, now.saturating_sub(Duration::from_secs(START)));
        (gateway, replicas)
    }

    /// One that cannot be reached, so that every revocation is pending.
    pub(super) fn unreachable() -> Arc<Self> {
        Arc::new(Self {
            is_unreachable: true,
            ..Self::default()
        })
    }

    /// One that stores revocations at once, and takes this long to respond.
    pub(super) fn slow(clock: Arc<ManualClock>, delay: Duration) -> Arc<Self> {
        Arc::new(Self {
            delay: Some((clock, delay)),
            ..Self::default()
        })
    }

    pub(super) fn sent(&self) -> Vec<Revocation> {
        self.sent.lock().unwrap().clone()
    }
}

/// The store responds that its time is this long after the start of the test.
pub(super) fn measure(gateway: &TestGateway, store: Duration) {
    let now = gateway.inner.replica.clock.now();
    let timeline = &gateway.inner.replica.timeline;
    timeline.measured(now, Duration::from_secs(START) + store, now);
}

#[tokio::test]
async fn logout_ends_the_session_at_the_other_replica_without_a_call_to_the_iam() {
    let (here, replicas) = RecordingReplicas::of(&TestGateway::new());
    let there = here.replica();
    let (session, other) = (here.log_in("alice").await, here.log_in("alice").await);
    there.granted(&session).await.unwrap();
    here.log_out(&session).await.unwrap();
    let [sent] = replicas.sent()[..] else {
        panic!("not exactly one revocation");
    };
    assert!(there.apply_remote(&sent));
    let introspections = there.introspections();
    let refused = there.granted(&session).await;
    assert_eq!(refused, Err(InvalidSession::Revoked.into()));
    assert_eq!(there.introspections(), introspections);
    assert!(there.granted(&other).await.is_ok());
}

#[tokio::test]
async fn logout_is_sent_to_the_replicas_after_the_call_to_the_iam_even_if_that_failed() {
    let (gateway, replicas) = RecordingReplicas::of(&TestGateway::new());
    let session = gateway.log_in("alice").await;
    let mut calls = gateway.iam.hold(Operation::Logout);
    let logout = {
        let (gateway, session) = (gateway.clone(), session.clone());
        tokio::spawn(async move { gateway.log_out(&session).await })
    };
    let call = calls.next().await;
    assert_eq!(replicas.sent(), []);
    call.reply(Reply::Fault(IamError::Failed("502".to_owned())));
    logout.await.unwrap().unwrap_err();
    assert_eq!(replicas.sent().len(), 1);
}

#[tokio::test]
async fn ends_reported_by_the_iam_are_sent_to_the_replicas_and_inactive_is_not() {
    let (gateway, replicas) = RecordingReplicas::of(&TestGateway::new());
    let session = gateway.log_in("alice").await;
    gateway.iam.end("secret-1");
    gateway.clock.advance(LIVENESS);
    gateway.granted(&session).await.unwrap_err();
    assert_eq!(replicas.sent(), []);
    gateway.end_upstream_session("upstream");
    gateway.end_sessions_of("alice", 0);
    assert_eq!(replicas.sent().len(), 2);
}

#[tokio::test]
async fn logout_of_an_inactive_session_is_sent_to_the_replicas() {
    let (gateway, replicas) = RecordingReplicas::of(&TestGateway::new());
    let session = gateway.log_in("alice").await;
    gateway.iam.end("secret-1");
    gateway.clock.advance(LIVENESS);
    gateway.granted(&session).await.unwrap_err();
    for _ in 0..3 {
        gateway.log_out(&session).await.unwrap();
        assert_eq!(replicas.sent().len(), 1);
        assert_eq!(gateway.iam.calls(Operation::Logout), 1);
    }
}

/// It may not have expired yet by the clock of another replica.
#[tokio::test]
async fn logout_of_a_session_that_has_expired_by_every_clock_succeeds_and_has_no_effect() {
    for (late, count) in [(0, 1), (1_199, 1), (1_200, 0)] {
        let (here, replicas) = RecordingReplicas::of(&TestGateway::new());
        let session = here.log_in("alice").await;
        let at = Duration::from_secs(session.expires_at + late);
        here.clock.set_wall(at);
        here.log_out(&session).await.unwrap();
        assert_eq!(replicas.sent().len(), count, "{late} s");
        assert_eq!(here.iam.calls(Operation::Logout), count, "{late} s");
        assert_eq!(here.inner.replica.revocations.count(), count, "{late} s");
    }
}

#[tokio::test]
async fn repeated_logouts_at_all_replicas_send_one_revocation() {
    let (here, outbox) = RecordingReplicas::of(&TestGateway::new());
    let (there, other_outbox) = RecordingReplicas::of(&here.replica());
    let session = here.log_in("alice").await;
    for _ in 0..3 {
        here.log_out(&session).await.unwrap();
    }
    let [sent] = outbox.sent()[..] else {
        panic!("not exactly one revocation");
    };
    there.apply_remote(&sent);
    for _ in 0..3 {
        there.log_out(&session).await.unwrap();
    }
    assert_eq!(other_outbox.sent(), []);
}

#[tokio::test]
async fn later_logout_token_of_a_subject_is_sent_again_and_one_of_the_same_time_is_not() {
    let (gateway, replicas) = RecordingReplicas::of(&TestGateway::new());
    for (until, sent) in [(0, 1), (0, 1), (1, 2), (0, 2)] {
        gateway.end_sessions_of("alice", until);
        assert_eq!(replicas.sent().len(), sent);
    }
}

/// The gap ends during an introspection, whose response may be older than a missed revocation.
#[tokio::test]
async fn introspection_started_in_a_gap_is_repeated_after_it() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (exchange, first) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.clock.advance(MILLISECOND);
    gateway.initial_sync_done();
    gateway.clock.advance(MILLISECOND);
    first.reply(active("alice", "read"));
    calls
        .next()
        .await
        .reply(Reply::Introspection(Introspection::Inactive));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
}

/// As when the machine is suspended meanwhile: no deadline of the call notices.
#[tokio::test]
async fn introspection_that_took_longer_than_the_freshness_is_repeated() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (exchange, first) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.clock.advance(LIVENESS);
    first.reply(active("alice", "read"));
    calls
        .next()
        .await
        .reply(Reply::Introspection(Introspection::Inactive));
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Ended.into()));
}

#[tokio::test]
async fn after_a_gap_fresh_data_is_introspected_again() {
    let (gateway, session) = TestGateway::with_session().await;
    gateway.granted(&session).await.unwrap();
    assert_eq!(gateway.introspections(), 0);
    gateway.clock.advance(MILLISECOND);
    gateway.initial_sync_done();
    gateway.clock.advance(MILLISECOND);
    for _ in 0..2 {
        gateway.granted(&session).await.unwrap();
        assert_eq!(gateway.introspections(), 1);
    }
}

#[tokio::test]
async fn after_a_gap_stale_data_is_not_used() {
    let mut policy = policy();
    policy.iam.freshness.stale_if_error = LIVENESS;
    let gateway = TestGateway::with(ScriptedIam::default(), policy);
    let session = gateway.log_in("alice").await;
    let unreachable = || Reply::Fault(IamError::Unreachable("refused".into()));
    gateway.clock.advance(LIVENESS);
    gateway.iam.script(Operation::Introspection, unreachable());
    gateway.granted(&session).await.unwrap();
    gateway.initial_sync_done();
    gateway.iam.script(Operation::Introspection, unreachable());
    gateway.granted(&session).await.unwrap_err();
}

#[tokio::test]
async fn after_a_gap_no_earlier_introspection_is_joined() {
    let (gateway, session) = TestGateway::with_stale_session().await;
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (early, early_call) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.initial_sync_done();
    gateway.clock.advance(MILLISECOND);
    let (late, late_call) = gateway.exchange_in_flight(&session, &mut calls).await;
    for call in [early_call, late_call] {
        call.reply(active("alice", "read"));
    }
    early.await.unwrap().unwrap();
    late.await.unwrap().unwrap();
}

#[tokio::test]
async fn replica_that_is_catching_up_logs_in_and_out_and_issues_no_token() {
    for catch_up in [TestGateway::initial_sync_done, |gateway: &TestGateway| {
        let revocations = &gateway.inner.replica.revocations;
        revocations.serve_without_catching_up();
    }] {
        let alone = TestGateway::new();
        let before = alone.log_in("alice").await;
        let gateway = joined(&alone, Arc::<RecordingReplicas>::default());
        let [session, ended] = [gateway.log_in("alice").await, gateway.log_in("alice").await];
        gateway.log_out(&ended).await.unwrap();
        for session in [&before, &session, &ended] {
            let refused = gateway.granted(session).await;
            assert_eq!(refused, Err(NotReady::CatchingUp.into()));
        }
        assert_eq!(gateway.introspections(), 0);
        catch_up(&gateway);
        gateway.clock.advance(MILLISECOND);
        for session in [&before, &session] {
            assert!(gateway.granted(session).await.is_ok());
        }
        let refused = gateway.granted(&ended).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()));
    }
}
