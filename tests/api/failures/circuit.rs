//! The circuit breaker, as clients, the operator and the IAM see it.

use std::collections::HashMap;
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::Operation;
use test_support::client::{Response, Session};
use test_support::gateway::manual_clock;
use test_support::scripted_upstream::keycloak::{INTROSPECTION, KEYCLOAK, PERMISSIONS, TOKEN};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::faulty_adapter::{AdapterFixture, Fault};
use super::wire_fixture::{EMAIL, PASSWORD, gateway};
use super::{STALE, UNAVAILABLE, precisely};

/// The number of failed calls that opens a circuit.
const ENOUGH: usize = 20;

/// How long a circuit stays open.
const PAUSE: Duration = Duration::from_secs(3);

fn outage() -> Fault {
    Fault::Error(IamError::Unreachable("outage".into()))
}

/// The state of the operation's circuit breaker: 0 closed, 1 half-open, 2 open.
async fn circuit(fixture: &AdapterFixture, operation: &str) -> u64 {
    let label = format!("operation=\"{operation}\"");
    fixture.gateway.metric("iam_circuit", &label).await
}

#[tokio::test]
async fn open_circuit_is_reported_to_clients_and_in_readiness() {
    for precise in [false, true] {
        let fixture = AdapterFixture::new(&[precisely(precise)]);
        let session = fixture.log_in().await.session();
        fixture.clock.advance(STALE);
        fixture.fails(Operation::Introspection, outage());
        assert_eq!(circuit(&fixture, "introspection").await, 0);
        for _ in 0..ENOUGH {
            let answer = fixture.exchange(&session).await;
            UNAVAILABLE.is_in(&answer, precise, "not reached");
        }
        assert_eq!(circuit(&fixture, "introspection").await, 2);
        fixture
            .gateway
            .wait_for_readiness("degraded", &["unreachable", "circuit_open"])
            .await;
        // The IAM works again, but the circuit is still open.
        fixture.fails(Operation::Introspection, Fault::Never);
        let answer = fixture.exchange(&session).await;
        UNAVAILABLE.is_in(&answer, precise, "not asked");
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
}

/// The clock stands still, so no circuit half-opens by time.
#[tokio::test]
async fn successful_probe_makes_a_replica_ready_again_without_a_request() {
    let script = HashMap::from([(Operation::Probe, outage())]);
    let fixture = AdapterFixture::with_script(script, &[("upstream.probe_interval", "20ms")]);
    let session = fixture.log_in().await.session();
    fixture.clock.advance(STALE);
    fixture.fails(Operation::Introspection, outage());
    fixture.fails(Operation::Login, outage());
    for _ in 0..ENOUGH {
        UNAVAILABLE.is_in(&fixture.exchange(&session).await, false, "exchange");
        UNAVAILABLE.is_in(&fixture.log_in().await, false, "login");
    }
    fixture
        .gateway
        .wait_for_readiness("degraded", &["unreachable", "circuit_open"])
        .await;
    for operation in [Operation::Introspection, Operation::Login, Operation::Probe] {
        fixture.fails(operation, Fault::Never);
    }
    fixture.gateway.wait_for_readiness("ready", &[]).await;
    assert_eq!(circuit(&fixture, "introspection").await, 1);
    assert_eq!(fixture.exchange(&session).await.status, 200);
    assert_eq!(fixture.log_in().await.status, 200);
    assert_eq!(circuit(&fixture, "introspection").await, 0);
    assert_eq!(circuit(&fixture, "login").await, 0);
}

fn is_a_token_or_a_fault(answer: &Response) -> bool {
    if answer.status == 200 {
        return true;
    }
    UNAVAILABLE.is_in(answer, false, "in the outage");
    false
}

#[tokio::test]
async fn failing_iam_under_load_ends_no_session_and_receives_no_further_calls() {
    const SESSIONS: usize = 60;
    let (keycloak, clock) = (ScriptedUpstream::keycloak().await, manual_clock());
    let gateway = gateway(
        &KEYCLOAK,
        &keycloak.url(),
        &clock,
        &[
            ("upstream.probe_interval", "1h"),
            ("login_limits.account_sessions_per_minute", "0"),
            ("login_limits.rate", "0"),
        ],
    );
    let mut sessions: Vec<Session> = Vec::new();
    for _ in 0..SESSIONS {
        let answer = gateway.log_in(EMAIL, &PASSWORD.into()).await;
        sessions.push(answer.session());
    }
    clock.advance(STALE);
    // All at the same time, and the IAM begins to fail in between.
    let exchange_all = || {
        futures_util::future::join_all(
            sessions
                .iter()
                .map(|one| gateway.exchange(one, PERMISSIONS[0])),
        )
    };
    let introspections = || keycloak.requests_to(INTROSPECTION).len();
    let before = introspections();
    let (answers, ()) = tokio::join!(exchange_all(), async {
        keycloak.received(INTROSPECTION, before + 20).await;
        for path in KEYCLOAK.endpoints() {
            keycloak.on(path, Answer::reset());
        }
    });
    let served = answers
        .iter()
        .filter(|one| is_a_token_or_a_fault(one))
        .count();
    assert!(served > 0, "some exchanges came before the failure");
    clock.advance(STALE);
    for _ in 0..2 {
        let answers = exchange_all().await;
        assert!(!answers.iter().any(is_a_token_or_a_fault));
    }
    let in_the_outage = introspections();
    let answers = exchange_all().await;
    assert!(!answers.iter().any(is_a_token_or_a_fault));
    assert_eq!(introspections(), in_the_outage, "the circuit is open");
    assert_eq!(
        keycloak.requests_to(TOKEN).len(),
        SESSIONS,
        "no login is needed"
    );

    keycloak.in_good_health();
    clock.advance(PAUSE);
    // The first exchange closes the circuit.
    assert_eq!(
        gateway.exchange(&sessions[0], PERMISSIONS[0]).await.status,
        200
    );
    let answers = exchange_all().await;
    assert!(answers.iter().all(is_a_token_or_a_fault));
}
