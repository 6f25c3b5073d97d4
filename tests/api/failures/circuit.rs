//! The circuit breaker, as clients, the operator and the IAM see it.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::Operation;
use test_support::scenario::{Fault, Scenario};

use super::{STALE, UNAVAILABLE};

/// The number of failed calls that opens a circuit.
const ENOUGH: usize = 20;

/// How long a circuit stays open.
const PAUSE: Duration = Duration::from_secs(3);

fn outage() -> Fault {
    Fault::Error(IamError::Unreachable("outage".into()))
}

/// The state of the operation's circuit breaker: 0 closed, 1 half-open, 2 open.
async fn circuit(fixture: &Scenario, operation: &str) -> u64 {
    let label = format!("operation=\"{operation}\"");
    fixture.gateway.metric("iam_circuit", &label).await
}

#[tokio::test]
async fn open_circuit_is_reported_to_clients_and_in_readiness() {
    let fixture = Scenario::new(&[]);
    let session = fixture.log_in().await.session();
    fixture.clock.advance(STALE);
    fixture.fails(Operation::Introspection, outage());
    assert_eq!(circuit(&fixture, "introspection").await, 0);
    for _ in 0..ENOUGH {
        let answer = fixture.exchange(&session).await;
        UNAVAILABLE.is_in(&answer, false, "not reached");
    }
    assert_eq!(circuit(&fixture, "introspection").await, 2);
    fixture
        .gateway
        .wait_for_readiness("degraded", &["unreachable", "circuit_open"])
        .await;
    // The IAM works again, but the circuit is still open.
    fixture.fails(Operation::Introspection, Fault::Never);
    let answer = fixture.exchange(&session).await;
    UNAVAILABLE.is_in(&answer, false, "not asked");
    // Each operation has its own circuit.
    let other = fixture.log_in().await.session();
    assert_eq!(fixture.exchange(&other).await.status, 200);
    fixture
        .gateway
        .wait_for_readiness("degraded", &["circuit_open"])
        .await;

    fixture.clock.advance(PAUSE);
    assert_eq!(fixture.exchange(&session).await.status, 200);
    assert_eq!(circuit(&fixture, "introspection").await, 0);
    fixture.gateway.wait_for_readiness("ready", &[]).await;
}
