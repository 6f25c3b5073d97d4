//! When a circuit opens, and when it does not.

use super::*;

pub(super) const PAUSE: Duration = Duration::from_secs(3);

/// An adapter behind its guard, by a clock that is moved by hand.
pub(super) struct Scene {
    pub(super) adapter: Arc<Scripted>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) guarded: Arc<Guarded>,
    pub(super) seen: Arc<Seen>,
}

impl Scene {
    pub(super) fn before(adapter: Arc<Scripted>) -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let (guarded, seen) = guarded_by(&clock, &adapter, 64);
        Self {
            adapter,
            clock,
            guarded,
            seen,
        }
    }

    pub(super) fn new() -> Self {
        Self::before(Scripted::failing(&[]))
    }

    /// One with a circuit that just opened, before an IAM that is still down.
    pub(super) async fn open() -> Self {
        let scene = Self::new();
        scene.log_in(20, Some(&failed())).await;
        assert_eq!(scene.circuit(), Circuit::Open);
        scene
    }

    /// So many logins, which end so.
    pub(super) async fn log_in(&self, times: usize, fault: Option<&IamError>) {
        self.adapter.breaks_down(fault.cloned());
        for _ in 0..times {
            let end = authenticate(&self.guarded).await.err();
            assert_eq!(end.as_ref(), fault);
        }
    }

    /// Panics unless a login is refused without a question.
    pub(super) async fn is_refused(&self) {
        let asked = self.adapter.calls();
        let refused = authenticate(&self.guarded).await.err();
        assert_eq!(refused, Some(IamError::CircuitOpen));
        assert_eq!(self.adapter.calls(), asked);
    }

    /// What the observer was told last.
    pub(super) fn circuit(&self) -> Circuit {
        let told = self.seen.1.lock().unwrap();
        told.last().map_or(Circuit::Closed, |(operation, circuit)| {
            assert_eq!(*operation, Operation::Login);
            *circuit
        })
    }
}

pub(super) fn failed() -> IamError {
    IamError::Failed("status 503".to_owned())
}

#[tokio::test]
async fn a_circuit_opens_when_half_of_twenty_calls_have_failed_and_nobody_asks_any_more() {
    for fault in [
        failed(),
        unreachable(),
        IamError::TimedOut(Duration::from_secs(5)),
    ] {
        let scene = Scene::new();
        scene.log_in(10, None).await;
        scene.log_in(9, Some(&fault)).await;
        assert_eq!(scene.circuit(), Circuit::Closed);
        scene.log_in(1, Some(&fault)).await;
        assert_eq!(scene.circuit(), Circuit::Open);
        for _ in 0..100 {
            scene.is_refused().await;
        }
        let seen = scene.seen.0.lock().unwrap();
        assert_eq!(seen.last(), Some(&(Operation::Login, Some("circuit_open"))));
    }
}

#[tokio::test]
async fn fewer_than_twenty_calls_or_fewer_than_half_of_them_open_nothing() {
    let scene = Scene::new();
    scene.log_in(19, Some(&failed())).await;
    assert_eq!(scene.circuit(), Circuit::Closed);
    let scene = Scene::new();
    scene.log_in(101, None).await;
    scene.log_in(100, Some(&failed())).await;
    assert_eq!(scene.circuit(), Circuit::Closed);
    scene.log_in(1, Some(&failed())).await;
    assert_eq!(scene.circuit(), Circuit::Open);
}

#[tokio::test]
async fn what_is_ten_seconds_old_is_forgotten() {
    let scene = Scene::new();
    for _ in 0..5 {
        scene.log_in(19, Some(&failed())).await;
        scene.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(scene.circuit(), Circuit::Closed);
    // The same calls within ten seconds.
    scene.log_in(10, Some(&failed())).await;
    scene.clock.advance(Duration::from_secs(9));
    scene.log_in(10, Some(&failed())).await;
    assert_eq!(scene.circuit(), Circuit::Open);
}

#[tokio::test]
async fn no_answer_of_the_iam_opens_a_circuit() {
    use crate::error::{Misconfiguration, Refusal};
    for answer in [
        IamError::Refused(Refusal::InvalidCredentials),
        IamError::Throttled { retry_after: None },
        IamError::Unreadable("html".to_owned()),
        IamError::misconfigured(Misconfiguration::ClientSecret, "detail"),
        IamError::misconfigured(Misconfiguration::Tls, "detail"),
    ] {
        let scene = Scene::new();
        scene.log_in(200, Some(&answer)).await;
        assert_eq!(scene.circuit(), Circuit::Closed);
        assert_eq!(scene.adapter.calls(), 200);
    }
}

#[tokio::test]
async fn a_circuit_is_that_of_one_operation() {
    let scene = Scene::open().await;
    scene.adapter.breaks_down(None);
    assert!(scene.guarded.introspect(&session()).await.is_ok());
    assert!(scene.guarded.end_session(&session()).await.is_ok());
    scene.is_refused().await;
}

#[tokio::test]
async fn a_call_that_is_given_up_is_neither_good_nor_bad() {
    let scene = Scene::before(Scripted::gated());
    for _ in 0..100 {
        let guarded = Arc::clone(&scene.guarded);
        let call = tokio::spawn(async move { authenticate(&guarded).await.is_ok() });
        tokio::task::yield_now().await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(scene.circuit(), Circuit::Closed);
    assert_eq!(scene.adapter.calls(), 100);
}

#[tokio::test]
async fn a_call_that_waits_for_a_place_while_the_circuit_opens_asks_nobody() {
    let adapter = Scripted::gated();
    let (guarded, _) = guarded(&adapter, 20);
    adapter.breaks_down(Some(failed()));
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let guarded = Arc::clone(&guarded);
            tokio::spawn(async move { authenticate(&guarded).await.err() })
        })
        .collect();
    tokio::task::yield_now().await;
    adapter.release(20);
    for (number, call) in calls.into_iter().enumerate() {
        let expected = if number < 20 {
            failed()
        } else {
            IamError::CircuitOpen
        };
        assert_eq!(call.await.unwrap(), Some(expected));
    }
    assert_eq!(adapter.calls(), 20);
}
