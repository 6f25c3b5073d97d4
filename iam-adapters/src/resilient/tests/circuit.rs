//! When a circuit opens.

use super::*;

pub(super) const PAUSE: Duration = Duration::from_secs(3);

/// A resilient adapter around a scripted one, with a manual clock.
pub(super) struct Fixture {
    pub(super) adapter: Arc<ScriptedAdapter>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) iam: Arc<ResilientAdapter>,
    pub(super) observer: Arc<Observed>,
}

impl Fixture {
    pub(super) fn with_adapter(adapter: Arc<ScriptedAdapter>) -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let (iam, observer) = resilient_at(&clock, &adapter, 64);
        Self {
            adapter,
            clock,
            iam,
            observer,
        }
    }

    pub(super) fn new() -> Self {
        Self::with_adapter(ScriptedAdapter::failing(&[]))
    }

    /// With an open circuit, and an IAM that still fails.
    pub(super) async fn open() -> Self {
        let fixture = Self::new();
        fixture.log_in(20, Some(&failed())).await;
        assert_eq!(fixture.circuit(), Circuit::Open);
        fixture
    }

    /// Makes logins that end with this result.
    pub(super) async fn log_in(&self, times: usize, fault: Option<&IamError>) {
        self.adapter.set_fault(fault.cloned());
        for _ in 0..times {
            let end = authenticate(&self.iam).await.err();
            assert_eq!(end.as_ref(), fault);
        }
    }

    /// Asserts that a login is refused without a call.
    pub(super) async fn is_refused(&self) {
        let calls = self.adapter.calls();
        let refused = authenticate(&self.iam).await.err();
        assert_eq!(refused, Some(IamError::CircuitOpen));
        assert_eq!(self.adapter.calls(), calls);
    }

    /// The last reported state of the circuit.
    pub(super) fn circuit(&self) -> Circuit {
        let circuits = self.observer.circuits.lock().unwrap();
        circuits
            .last()
            .map_or(Circuit::Closed, |(operation, circuit)| {
                assert_eq!(*operation, Operation::Login);
                *circuit
            })
    }
}

pub(super) fn failed() -> IamError {
    IamError::Failed("status 503".to_owned())
}

#[tokio::test]
async fn circuit_opens_when_half_of_twenty_calls_failed_and_makes_no_further_call() {
    for fault in [
        failed(),
        unreachable(),
        IamError::TimedOut(Duration::from_secs(5)),
        IamError::PossibleRefusal(Box::new(failed())),
    ] {
        let fixture = Fixture::new();
        fixture.log_in(10, None).await;
        fixture.log_in(9, Some(&fault)).await;
        assert_eq!(fixture.circuit(), Circuit::Closed);
        fixture.log_in(1, Some(&fault)).await;
        assert_eq!(fixture.circuit(), Circuit::Open);
        for _ in 0..100 {
            fixture.is_refused().await;
        }
        let observer = fixture.observer.calls.lock().unwrap();
        assert_eq!(
            observer.last(),
            Some(&(Operation::Login, Some("circuit_open")))
        );
    }
}

#[tokio::test]
async fn fewer_than_twenty_calls_or_fewer_than_half_failures_leave_the_circuit_closed() {
    let fixture = Fixture::new();
    fixture.log_in(19, Some(&failed())).await;
    assert_eq!(fixture.circuit(), Circuit::Closed);
    let fixture = Fixture::new();
    fixture.log_in(101, None).await;
    fixture.log_in(100, Some(&failed())).await;
    assert_eq!(fixture.circuit(), Circuit::Closed);
    fixture.log_in(1, Some(&failed())).await;
    assert_eq!(fixture.circuit(), Circuit::Open);
}

#[tokio::test]
async fn calls_of_ten_seconds_ago_do_not_count() {
    let fixture = Fixture::new();
    for _ in 0..5 {
        fixture.log_in(19, Some(&failed())).await;
        fixture.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(fixture.circuit(), Circuit::Closed);
    // The same calls within ten seconds.
    fixture.log_in(10, Some(&failed())).await;
    fixture.clock.advance(Duration::from_secs(9));
    fixture.log_in(10, Some(&failed())).await;
    assert_eq!(fixture.circuit(), Circuit::Open);
}

#[tokio::test]
async fn responses_that_are_no_failures_leave_the_circuit_closed() {
    use crate::error::{Misconfiguration, Refusal};
    for answer in [
        IamError::Refused(Refusal::InvalidCredentials),
        IamError::Throttled { retry_after: None },
        IamError::Unreadable("html".into()),
        IamError::misconfigured(Misconfiguration::ClientSecret, "detail"),
        IamError::misconfigured(Misconfiguration::Tls, "detail"),
        IamError::PossibleRefusal(Box::new(IamError::Unreadable("html".into()))),
    ] {
        let fixture = Fixture::new();
        fixture.log_in(200, Some(&answer)).await;
        assert_eq!(fixture.circuit(), Circuit::Closed);
        assert_eq!(fixture.adapter.calls(), 200);
    }
}

#[tokio::test]
async fn each_operation_has_its_own_circuit() {
    let fixture = Fixture::open().await;
    fixture.adapter.set_fault(None);
    assert!(fixture.iam.introspect(&session()).await.is_ok());
    assert!(fixture.iam.end_session(&session()).await.is_ok());
    fixture.is_refused().await;
}

#[tokio::test]
async fn cancelled_call_counts_neither_as_success_nor_as_failure() {
    let fixture = Fixture::with_adapter(ScriptedAdapter::gated(0));
    for _ in 0..100 {
        let iam = Arc::clone(&fixture.iam);
        let call = tokio::spawn(async move { authenticate(&iam).await.is_ok() });
        tokio::task::yield_now().await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(fixture.circuit(), Circuit::Closed);
    assert_eq!(fixture.adapter.calls(), 100);
}

#[tokio::test]
async fn call_that_waits_for_a_permit_while_the_circuit_opens_is_not_made() {
    let adapter = ScriptedAdapter::gated(0);
    let (iam, _) = resilient(&adapter, 20);
    adapter.set_fault(Some(failed()));
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let iam = Arc::clone(&iam);
            tokio::spawn(async move { authenticate(&iam).await.err() })
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
