//! The state of a gateway is separate for each namespace.

use reqwest::Method;
use serde_json::json;
use test_support::endpoints::BACKCHANNEL_LOGOUT;
use test_support::gateway::TestGateway;
use test_support::wait::until;
use test_support::wire::{Connection, form, with_header};

use crate::namespace::{ALICE, Namespace, READ, gateway, gateway_with};

/// The number of failures that opens a circuit.
const ENOUGH: usize = 20;

#[tokio::test]
async fn session_of_one_namespace_is_invalid_in_another() {
    let gateway = gateway();
    let one = Namespace::named(&gateway, "one");
    let session = one.session(ALICE).await;
    for other in [
        Namespace::named(&gateway, "other"),
        Namespace::unnamed(&gateway),
    ] {
        // The same user has a session in the other namespace as well.
        other.session(ALICE).await;
        let answer = other.exchange(&session, READ).await;
        answer.is_error(401, "invalid_grant");
        other
            .log_out(&session)
            .await
            .is_error(400, "invalid_request");
    }
    assert_eq!(one.exchange(&session, READ).await.token().scope, READ);
}

#[tokio::test]
async fn request_without_the_header_uses_the_default_namespace() {
    let gateway = gateway();
    let (unnamed, named) = (
        Namespace::unnamed(&gateway),
        Namespace::named(&gateway, "default"),
    );
    let session = unnamed.session(ALICE).await;
    assert_eq!(named.exchange(&session, READ).await.token().scope, READ);
    named
        .fault(json!({"operation": "login", "answer": "server_error"}))
        .await;
    unnamed
        .try_log_in(ALICE)
        .await
        .is_error(500, "temporarily_unavailable");
    assert_eq!(unnamed.read("/status").await, named.read("/status").await);
}

#[tokio::test]
async fn open_circuit_of_one_namespace_does_not_affect_another() {
    let gateway = gateway();
    let (one, other) = (
        Namespace::named(&gateway, "one"),
        Namespace::named(&gateway, "other"),
    );
    one.fault(json!({"operation": "login", "answer": "unreachable"}))
        .await;
    for _ in 0..ENOUGH {
        one.try_log_in(ALICE)
            .await
            .is_error(500, "temporarily_unavailable");
    }
    one.done(Method::DELETE, "/faults").await;
    // The circuit is open: no call is made.
    let before = one.calls("operation=login").await;
    one.try_log_in(ALICE)
        .await
        .is_error(500, "temporarily_unavailable");
    assert_eq!(one.calls("operation=login").await, before);
    other.session(ALICE).await;
    assert_eq!(other.ready().await.json()["reasons"], json!([]));
    assert_eq!(one.ready().await.json()["status"], json!("degraded"));
}

#[test]
fn sender_of_forged_logout_tokens_is_limited_in_one_namespace_only() {
    let gateway = gateway();
    let mut connection = Connection::to(gateway.addresses().public);
    let mut send = |namespace: &str| {
        let request = form(BACKCHANNEL_LOGOUT, "logout_token=a.b.c");
        let request = with_header(&format!("Mock-Namespace: {namespace}"), &request);
        connection.send(request).answer().status
    };
    let statuses: Vec<_> = (0..51).map(|_| send("default")).collect();
    assert_eq!(statuses, [[400; 50].as_slice(), &[429]].concat());
    assert_eq!(send("other"), 400);
}

/// A gateway that probes often. An IAM that does not respond holds its probes and logouts for a minute.
fn patient_gateway() -> TestGateway {
    gateway_with(&[
        ("upstream.probe_interval", "10ms"),
        ("upstream.probe_deadline", "60s"),
        ("upstream.logout_deadline", "60s"),
    ])
}

/// The calls of an operation are not answered from now on.
async fn holds(mock: &Namespace, operation: &str) {
    let delay = json!({"operation": operation, "delay": {"fixed": "10m"}});
    mock.fault(delay).await;
}

/// Waits until such a call has been made.
async fn is_held(mock: &Namespace) {
    until("a call that is not answered", async || {
        let found = mock.read("/faults").await;
        found["faults"][0]["applied"].as_u64() > Some(0)
    })
    .await;
}

async fn assert_calls(mock: &Namespace, query: &str) {
    let found = mock
        .read(&format!("/journal/wait?timeout=30s&{query}"))
        .await;
    assert_eq!(found["reached"], json!(true), "{query}: {found}");
}

#[tokio::test]
async fn probe_that_is_not_answered_delays_no_probe_of_another_namespace() {
    let gateway = patient_gateway();
    let (one, other) = (
        Namespace::named(&gateway, "one"),
        Namespace::named(&gateway, "other"),
    );
    holds(&one, "probe").await;
    is_held(&one).await;
    // Its first request creates it.
    assert_calls(&other, "operation=probe&count=2").await;
}

/// A logout that fails at the IAM. It is due again after a pause.
async fn fail_logout(mock: &Namespace) {
    let session = mock.session(ALICE).await;
    mock.fault(json!({"operation": "logout", "answer": "server_error", "times": 1}))
        .await;
    assert_eq!(mock.log_out(&session).await.status, 500);
}

#[tokio::test]
async fn logout_that_is_not_answered_delays_no_logout_of_another_namespace() {
    let gateway = patient_gateway();
    let (one, other) = (
        Namespace::named(&gateway, "one"),
        Namespace::named(&gateway, "other"),
    );
    fail_logout(&one).await;
    holds(&one, "logout").await;
    // The end of every pause.
    one.advance("30s").await;
    is_held(&one).await;
    fail_logout(&other).await;
    other.advance("30s").await;
    assert_calls(&other, "operation=logout&outcome=ok&count=1").await;
}

#[tokio::test]
async fn reset_of_one_namespace_affects_no_other() {
    let gateway = gateway();
    let (one, other) = (
        Namespace::named(&gateway, "one"),
        Namespace::named(&gateway, "other"),
    );
    let unnamed = Namespace::unnamed(&gateway);
    let sessions = (other.session(ALICE).await, unnamed.session(ALICE).await);
    one.session(ALICE).await;
    one.done(Method::POST, "/reset").await;
    assert_eq!(other.exchange(&sessions.0, READ).await.status, 200);
    assert_eq!(unnamed.exchange(&sessions.1, READ).await.status, 200);
    other.done(Method::DELETE, "/namespaces/one").await;
    assert_eq!(other.exchange(&sessions.0, READ).await.status, 200);
    unnamed.done(Method::POST, "/reset").await;
    assert_eq!(other.exchange(&sessions.0, READ).await.status, 200);
    unnamed
        .exchange(&sessions.1, READ)
        .await
        .is_error(401, "invalid_grant");
}
