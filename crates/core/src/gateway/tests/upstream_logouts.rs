use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use iam_adapters::resilient::{CallLimit, Operation};
use iam_adapters::single_flight::LostTask;
use iam_adapters::{IamError, Misconfiguration};
use test_support::resilient::resilient;
use tokio::runtime::Builder;

use super::login::faults;
use super::replicas::RecordingReplicas;
use super::test_gateway::{Session, TestGateway, policy};
use crate::error::{GatewayError, Internal};
use crate::timeline::DIFFERENCE_MAX;
use test_support::scripted_iam::{Reply, ScriptedIam};

/// The longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

fn outage() -> IamError {
    IamError::Unreachable("outage".into())
}

impl TestGateway {
    /// A session whose logout fails with this fault.
    async fn fail_to_log_out(&self, fault: IamError) -> Session {
        let session = self.log_in("alice").await;
        let expected = GatewayError::from(fault.clone());
        self.iam.script(Operation::Logout, Reply::Fault(fault));
        assert_eq!(self.log_out(&session).await, Err(expected));
        session
    }

    async fn finish_due(&self) {
        self.iam().upstream_logouts.finish_due().await;
    }

    /// In each second, for this number of seconds.
    async fn finish_due_for(&self, seconds: usize) {
        for _ in 0..seconds {
            self.clock.advance(SECOND);
            self.finish_due().await;
        }
    }

    fn unfinished(&self) -> usize {
        self.iam().upstream_logouts.unfinished_count()
    }

    fn outcomes(&self) -> [usize; 4] {
        self.events.logout_outcomes()
    }

    fn logouts(&self) -> usize {
        self.iam.calls(Operation::Logout)
    }
}

#[tokio::test]
async fn failed_logout_is_finished_when_the_iam_works_again_without_a_request() {
    for fault in faults() {
        let gateway = TestGateway::new();
        let session = gateway.fail_to_log_out(fault.clone()).await;
        assert!(!gateway.iam.has_ended("secret-1"));
        gateway.finish_due().await;
        assert_eq!(gateway.logouts(), 1, "{fault:?}: the pause is not over");
        gateway.clock.advance(PAUSE_MAX);
        gateway.finish_due().await;
        assert!(gateway.iam.has_ended("secret-1"), "{fault:?}");
        assert_eq!(
            (gateway.unfinished(), gateway.outcomes()),
            (0, [1, 0, 0, 0])
        );
        gateway.log_out(&session).await.unwrap();
        assert_eq!(gateway.logouts(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn successful_logout_is_never_unfinished() {
    let gateway = TestGateway::new();
    let session = gateway.log_in("alice").await;
    gateway.log_out(&session).await.unwrap();
    gateway.finish_due_for(60).await;
    assert_eq!((gateway.logouts(), gateway.outcomes()), (1, [0, 0, 0, 0]));
}

#[tokio::test]
async fn unreachable_iam_gets_one_call_at_a_time_and_after_its_return_all_logouts_without_a_pause()
{
    const SESSIONS: usize = 1_000;
    let gateway = TestGateway::new();
    for _ in 0..SESSIONS {
        gateway.fail_to_log_out(outage()).await;
    }
    gateway.iam.set_outage(Some(outage()));
    gateway.finish_due_for(60).await;
    let probes = gateway.logouts() - SESSIONS;
    assert!((5..=9).contains(&probes), "{probes} calls in a minute");
    gateway.iam.set_outage(None);
    gateway.clock.advance(PAUSE_MAX);
    gateway.finish_due().await;
    assert_eq!(gateway.logouts(), SESSIONS + probes + SESSIONS);
    assert_eq!(gateway.outcomes(), [SESSIONS, 0, 0, 0]);
}

#[tokio::test]
async fn unfinished_logouts_are_one_call_in_flight() {
    let gateway = TestGateway::new();
    for _ in 0..3 {
        gateway.fail_to_log_out(outage()).await;
    }
    gateway.clock.advance(PAUSE_MAX);
    let mut calls = gateway.iam.hold(Operation::Logout);
    let mut finishing = Box::pin(gateway.finish_due());
    for finished in 0..3 {
        assert!(finishing.as_mut().now_or_never().is_none());
        let call = calls.next().await;
        assert_eq!(gateway.logouts(), 4 + finished);
        call.reply(Reply::Model);
        // On a single thread, the task of the call has run by then.
        tokio::task::yield_now().await;
    }
    finishing.await;
    assert_eq!(gateway.unfinished(), 0);
}

#[tokio::test]
async fn logout_of_a_client_joins_the_call_that_finishes_it() {
    let gateway = TestGateway::new();
    let session = gateway.fail_to_log_out(outage()).await;
    gateway.clock.advance(PAUSE_MAX);
    let mut calls = gateway.iam.hold(Operation::Logout);
    let mut finishing = Box::pin(gateway.finish_due());
    assert!(finishing.as_mut().now_or_never().is_none());
    let call = calls.next().await;
    let mut repeated = Box::pin(gateway.log_out(&session));
    assert!(repeated.as_mut().now_or_never().is_none());
    call.reply(Reply::Model);
    repeated.await.unwrap();
    finishing.await;
    assert_eq!((gateway.logouts(), gateway.outcomes()), (2, [1, 0, 0, 0]));
}

#[tokio::test]
async fn repeated_logout_of_a_client_finishes_it() {
    let gateway = TestGateway::new();
    let session = gateway.fail_to_log_out(outage()).await;
    gateway.log_out(&session).await.unwrap();
    assert_eq!(
        (gateway.unfinished(), gateway.outcomes()),
        (0, [1, 0, 0, 0])
    );
    gateway.finish_due_for(60).await;
    assert_eq!(gateway.logouts(), 2);
}

#[tokio::test]
async fn unfinished_logout_ends_without_a_call_when_its_session_has_expired_by_every_clock() {
    for (early, calls, outcomes) in [(1, 2, [1, 0, 0, 0]), (0, 1, [0, 1, 0, 0])] {
        let gateway = TestGateway::new();
        let session = gateway.fail_to_log_out(outage()).await;
        let at = Duration::from_secs(session.expires_at - early) + 2 * DIFFERENCE_MAX;
        gateway.clock.set_wall(at);
        gateway.finish_due().await;
        assert_eq!((gateway.logouts(), gateway.outcomes()), (calls, outcomes));
        assert_eq!(gateway.unfinished(), 0);
    }
}

#[tokio::test]
async fn session_that_the_iam_reports_as_ended_is_finished_by_a_repeated_logout_without_a_call() {
    let gateway = TestGateway::new();
    let session = gateway.fail_to_log_out(outage()).await;
    gateway.end_upstream_session("upstream-1");
    gateway.log_out(&session).await.unwrap();
    assert_eq!(
        (gateway.unfinished(), gateway.outcomes()),
        (0, [1, 0, 0, 0])
    );
    assert_eq!(gateway.logouts(), 1);
}

#[tokio::test]
async fn fault_that_a_retry_cannot_change_is_final() {
    let foreign_client =
        || IamError::misconfigured(Misconfiguration::ForeignClient, "another client");
    let gateway = TestGateway::new();
    gateway.fail_to_log_out(foreign_client()).await;
    assert_eq!(
        (gateway.unfinished(), gateway.outcomes()),
        (0, [0, 0, 1, 0])
    );
    gateway.fail_to_log_out(outage()).await;
    gateway
        .iam
        .script(Operation::Logout, Reply::Fault(foreign_client()));
    gateway.finish_due_for(60).await;
    assert_eq!(
        (gateway.unfinished(), gateway.outcomes()),
        (0, [0, 0, 2, 0])
    );
    assert_eq!(gateway.logouts(), 3);
}

#[tokio::test]
async fn panic_during_the_call_is_repeated_after_a_pause() {
    let gateway = TestGateway::new();
    gateway.fail_to_log_out(outage()).await;
    gateway.iam.script(Operation::Logout, Reply::Panic);
    gateway.clock.advance(PAUSE_MAX);
    gateway.finish_due().await;
    assert_eq!((gateway.unfinished(), gateway.logouts()), (1, 2));
    gateway.clock.advance(PAUSE_MAX);
    gateway.finish_due().await;
    assert_eq!((gateway.unfinished(), gateway.logouts()), (0, 3));
}

#[tokio::test]
async fn logout_whose_call_panics_is_sent_to_the_replicas_and_finished() {
    let (gateway, replicas) = RecordingReplicas::of(&TestGateway::new());
    let session = gateway.log_in("alice").await;
    gateway.iam.script(Operation::Logout, Reply::Panic);
    let failed = gateway.log_out(&session).await;
    assert_eq!(failed, Err(Internal::LostTask(LostTask).into()));
    assert_eq!((replicas.sent().len(), gateway.unfinished()), (1, 1));
    gateway.clock.advance(PAUSE_MAX);
    gateway.finish_due().await;
    assert_eq!((gateway.unfinished(), gateway.logouts()), (0, 2));
}

/// Each worker of a listener has a runtime. It ends at the shutdown deadline, or without connections.
#[test]
fn logout_whose_runtime_ends_is_sent_to_the_replicas_and_finished_by_the_gateway_that_stops() {
    let runtime = || Builder::new_current_thread().enable_time().build().unwrap();
    let (worker, main) = (runtime(), runtime());
    let (gateway, replicas) = RecordingReplicas::of(&TestGateway::new());
    let sent_and_unfinished = || (replicas.sent().len(), gateway.unfinished());
    let _held = worker.block_on(async {
        let session = gateway.log_in("alice").await;
        let mut calls = gateway.iam.hold(Operation::Logout);
        assert!(gateway.log_out(&session).now_or_never().is_none());
        calls.next().await
    });
    gateway.iam.release(Operation::Logout);
    let mut finishing = Box::pin(gateway.iam().upstream_logouts.finish_now());
    assert!(finishing.as_mut().now_or_never().is_none());
    assert_eq!(sent_and_unfinished(), (0, 0));
    drop(worker);
    assert_eq!(sent_and_unfinished(), (1, 1));
    main.block_on(finishing);
    assert!(gateway.iam.has_ended("secret-1"));
    assert_eq!(sent_and_unfinished(), (1, 0));
    assert_eq!(gateway.outcomes(), [1, 0, 0, 0]);
}

#[test]
fn logout_whose_runtime_ends_before_its_task_begins_is_finished_by_the_gateway_that_stops() {
    let runtime = || Builder::new_current_thread().enable_time().build().unwrap();
    let (worker, main) = (runtime(), runtime());
    let (gateway, replicas) = RecordingReplicas::of(&TestGateway::new());
    let sent_and_unfinished = || (replicas.sent().len(), gateway.unfinished());
    worker.block_on(async {
        let session = gateway.log_in("alice").await;
        assert!(gateway.log_out(&session).now_or_never().is_none());
    });
    drop(worker);
    assert_eq!(gateway.logouts(), 0, "the task has not begun");
    assert_eq!(sent_and_unfinished(), (1, 1));
    main.block_on(gateway.iam().upstream_logouts.finish_now());
    assert!(gateway.iam.has_ended("secret-1"));
    assert_eq!(sent_and_unfinished(), (1, 0));
    assert_eq!(gateway.outcomes(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn gateway_that_stops_calls_the_iam_once_more_without_a_pause() {
    let gateway = TestGateway::new();
    for _ in 0..3 {
        gateway.fail_to_log_out(outage()).await;
    }
    gateway.iam.set_outage(Some(outage()));
    gateway.iam().upstream_logouts.finish_now().await;
    assert_eq!((gateway.unfinished(), gateway.logouts()), (3, 4));
    gateway.iam.set_outage(None);
    gateway.iam().upstream_logouts.finish_now().await;
    assert_eq!((gateway.unfinished(), gateway.logouts()), (0, 7));
}

#[tokio::test]
async fn open_circuit_is_no_failure_of_the_iam_and_the_first_call_after_it_finishes_all() {
    const SESSIONS: usize = 30;
    let limit = CallLimit {
        deadline: SECOND,
        concurrency: 4,
    };
    let gateway = TestGateway::with_adapter(ScriptedIam::default(), policy(), |iam, clock| {
        Arc::new(resilient(iam, limit, clock))
    });
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        sessions.push(gateway.log_in(&format!("user{number}")).await);
    }
    let failed = IamError::Failed("503".to_owned());
    gateway.iam.set_outage(Some(failed));
    for session in &sessions {
        gateway.log_out(session).await.unwrap_err();
    }
    let calls = gateway.logouts();
    assert!(calls < SESSIONS, "the circuit is open");
    gateway.iam.set_outage(None);
    // The pause is over, and the circuit is still open.
    gateway.clock.advance(SECOND);
    gateway.finish_due().await;
    assert_eq!((gateway.logouts(), gateway.unfinished()), (calls, SESSIONS));
    gateway.finish_due_for(3).await;
    assert_eq!(
        (gateway.logouts(), gateway.unfinished()),
        (calls + SESSIONS, 0)
    );
}

#[tokio::test]
async fn unfinished_logouts_show_no_secret() {
    let gateway = TestGateway::new();
    gateway.fail_to_log_out(outage()).await;
    let shown = format!("{:?}", gateway.iam().upstream_logouts);
    assert_eq!(shown, "UpstreamLogouts { unfinished: 1, .. }");
}
