//! How a circuit closes again.

use super::circuit::{Fixture, PAUSE, failed};
use super::*;

#[tokio::test]
async fn after_the_pause_one_success_closes_the_circuit() {
    let fixture = Fixture::open().await;
    fixture
        .clock
        .advance(PAUSE.saturating_sub(Duration::from_millis(1)));
    fixture.is_refused().await;
    fixture.clock.advance(Duration::from_millis(1));
    fixture.log_in(1, None).await;
    let changes = [Circuit::Open, Circuit::HalfOpen, Circuit::Closed];
    let changes = changes.map(|circuit| (Operation::Login, circuit));
    assert_eq!(*fixture.observer.circuits.lock().unwrap(), changes);
    // Earlier failures do not count.
    fixture.log_in(19, Some(&failed())).await;
    assert_eq!(fixture.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn after_the_pause_one_failure_starts_another_pause() {
    let fixture = Fixture::open().await;
    for _ in 0..5 {
        fixture.clock.advance(PAUSE);
        fixture.log_in(1, Some(&failed())).await;
        assert_eq!(fixture.circuit(), Circuit::Open);
        fixture.is_refused().await;
    }
    assert_eq!(fixture.adapter.calls(), 25);
}

/// A half-open circuit, with trial calls in flight.
async fn half_open(calls: usize) -> (Fixture, Vec<tokio::task::JoinHandle<Option<IamError>>>) {
    let fixture = Fixture::with_adapter(ScriptedAdapter::gated(0));
    fixture.adapter.release(20);
    fixture.log_in(20, Some(&failed())).await;
    fixture.clock.advance(PAUSE);
    let trials = (0..calls).map(|_| {
        let iam = Arc::clone(&fixture.iam);
        tokio::spawn(async move { authenticate(&iam).await.err() })
    });
    let trials = trials.collect();
    tokio::task::yield_now().await;
    assert_eq!(fixture.adapter.calls(), 20 + calls.min(3));
    (fixture, trials)
}

#[tokio::test]
async fn half_open_circuit_makes_at_most_three_concurrent_calls() {
    let (fixture, mut trials) = half_open(10).await;
    for refused in trials.split_off(3) {
        assert_eq!(refused.await.unwrap(), Some(IamError::CircuitOpen));
    }
    fixture.adapter.set_fault(None);
    fixture.adapter.release(3);
    for trial in trials {
        assert_eq!(trial.await.unwrap(), None);
    }
    assert_eq!(fixture.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn cancelled_trial_call_allows_another_one() {
    let (fixture, trials) = half_open(3).await;
    fixture.is_refused().await;
    for trial in trials {
        trial.abort();
        assert!(trial.await.unwrap_err().is_cancelled());
    }
    fixture.adapter.release(1);
    fixture.log_in(1, None).await;
    assert_eq!(fixture.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn result_of_a_call_from_an_earlier_phase_does_not_count() {
    let fixture = Fixture::with_adapter(ScriptedAdapter::gated(0));
    let begin = || {
        let iam = Arc::clone(&fixture.iam);
        tokio::spawn(async move { authenticate(&iam).await.err() })
    };
    let mut calls: Vec<_> = (0..21).map(|_| begin()).collect();
    let late_call = calls.pop().unwrap();
    tokio::task::yield_now().await;
    fixture.adapter.set_fault(Some(failed()));
    fixture.adapter.release(20);
    for call in calls {
        assert_eq!(call.await.unwrap(), Some(failed()));
    }
    fixture.clock.advance(PAUSE);
    let trial = begin();
    tokio::task::yield_now().await;
    assert_eq!(fixture.circuit(), Circuit::HalfOpen);
    fixture.adapter.set_fault(None);
    fixture.adapter.release(1);
    assert_eq!(late_call.await.unwrap(), None);
    assert_eq!(fixture.circuit(), Circuit::HalfOpen);
    fixture.adapter.set_fault(Some(failed()));
    fixture.adapter.release(1);
    assert_eq!(trial.await.unwrap(), Some(failed()));
    assert_eq!(fixture.circuit(), Circuit::Open);
}

#[tokio::test]
async fn trial_call_is_not_retried() {
    let fixture = Fixture::new();
    fixture.adapter.set_fault(Some(unreachable()));
    for _ in 0..20 {
        fixture.iam.introspect(&session()).await.unwrap_err();
    }
    fixture.clock.advance(PAUSE);
    let before = fixture.adapter.calls();
    let trial = fixture.iam.introspect(&session()).await;
    assert_eq!(trial, Err(unreachable()));
    assert_eq!(fixture.adapter.calls() - before, 1);
}

#[tokio::test]
async fn probe_is_always_made_and_its_success_ends_the_pause() {
    let fixture = Fixture::open().await;
    for _ in 0..100 {
        assert_eq!(fixture.iam.probe().await, Err(failed()));
        fixture.is_refused().await;
    }
    fixture.adapter.set_fault(None);
    fixture.iam.probe().await.unwrap();
    assert_eq!(fixture.circuit(), Circuit::HalfOpen);
    fixture.log_in(1, None).await;
    assert_eq!(fixture.circuit(), Circuit::Closed);
    fixture.iam.probe().await.unwrap();
    assert_eq!(fixture.circuit(), Circuit::Closed);
}

/// A clock that is set back could otherwise keep a circuit open for as long as it was set back.
#[tokio::test]
async fn clock_that_is_set_back_ends_the_pause() {
    let fixture = Fixture::open().await;
    fixture.clock.set_wall(Duration::from_secs(1_700_000_000));
    fixture.log_in(1, None).await;
    assert_eq!(fixture.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn panic_of_the_adapter_is_a_fault_of_its_call_and_reported_to_the_observer() {
    let adapter = Arc::<ScriptedAdapter>::default();
    adapter.set_panics(true);
    let (iam, observer) = resilient(&adapter, 1);
    let fault = IamError::Unreadable("the adapter panicked".into());
    for _ in 0..30 {
        assert_eq!(authenticate(&iam).await.err(), Some(fault.clone()));
        let introspected = iam.introspect(&session()).await;
        assert_eq!(introspected, Err(fault.clone()));
        assert_eq!(iam.end_session(&session()).await, Err(fault.clone()));
        assert_eq!(iam.probe().await, Err(fault.clone()));
    }
    let calls = observer.calls.lock().unwrap();
    assert_eq!(calls.len(), 120);
    assert!(calls.iter().all(|(_, end)| *end == Some("unreadable")));
}
