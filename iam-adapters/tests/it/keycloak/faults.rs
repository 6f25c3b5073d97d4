//! Failures of the server in every operation: each is the right fault, never a success or a refusal.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::resilient::{CallLimit, Operation};
use iam_adapters::{IamAdapter, IamError};
use serde_json::json;
use test_support::resilient::resilient;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, KEYS, LOGOUT, TOKEN, grant, inactive,
};
use test_support::scripted_upstream::{Answer, RefusingPort, ScriptedUpstream};
use tokio::time::{advance, pause, resume};

use super::{adapter, kind, log_in, session};

const OPERATIONS: [(Operation, &str); 6] = [
    (Operation::Login, TOKEN),
    (Operation::Introspection, INTROSPECTION),
    (Operation::Logout, LOGOUT),
    (Operation::Keys, KEYS),
    (Operation::Probe, DISCOVERY),
    (Operation::Probe, INTROSPECTION),
];

const OVERLONG: usize = 10 * 1024 * 1024;

/// A server on which the operation succeeds. A probe needs an inactive token.
async fn healthy(operation: Operation) -> ScriptedUpstream {
    let upstream = ScriptedUpstream::keycloak().await;
    if operation == Operation::Probe {
        upstream.on(INTROSPECTION, inactive());
    }
    upstream
}

async fn call(keycloak: &impl IamAdapter, operation: Operation) -> Result<(), IamError> {
    match operation {
        Operation::Login => {
            let login = log_in(keycloak).await;
            login.map(|_| ())
        }
        Operation::Introspection => keycloak.introspect(&session()).await.map(|_| ()),
        Operation::Logout => keycloak.end_session(&session()).await,
        Operation::Keys => keycloak.verification_keys().await.map(|_| ()),
        Operation::Probe => keycloak.probe().await,
        Operation::Permissions => unreachable!("not a call of an adapter"),
    }
}

/// Asserts the fault of every operation for this response, after one request.
async fn assert_fault(answer: impl Fn() -> Answer, expected: impl Fn(&IamError) -> bool) {
    for (operation, path) in OPERATIONS {
        let upstream = healthy(operation).await;
        upstream.on(path, answer());
        let result = call(&adapter(&upstream.url()), operation).await;
        assert!(
            result.as_ref().is_err_and(&expected),
            "{operation:?} at {path}: {result:?}"
        );
        assert_eq!(
            upstream.requests_to(path).len(),
            1,
            "{operation:?} at {path}"
        );
    }
}

#[tokio::test]
async fn server_error_is_failed() {
    for status in [500, 502, 503, 504] {
        let failed = IamError::Failed(format!("status {status}"));
        assert_fault(|| Answer::html(status), |error| *error == failed).await;
        let json = || Answer::json(status, json!({"error": "invalid_grant"}));
        assert_fault(json, |error| *error == failed).await;
    }
}

#[tokio::test]
async fn status_429_is_throttled_with_its_retry_after() {
    for (sent, expected) in [
        (Some("7"), Some(7)),
        (Some("0"), Some(0)),
        (None, None),
        (Some("Fri, 20 Nov 2026 10:00:00 GMT"), None),
        (Some("-1"), None),
        (Some("99999999999999999999"), None),
    ] {
        let answer = || {
            let answer = Answer::html(429);
            sent.map_or(answer.clone(), |seconds| {
                answer.with("Retry-After", seconds)
            })
        };
        let retry_after = expected.map(Duration::from_secs);
        assert_fault(answer, |error| {
            *error == IamError::Throttled { retry_after }
        })
        .await;
    }
}

#[tokio::test]
async fn redirect_is_never_followed() {
    let other = ScriptedUpstream::keycloak().await;
    for status in [301, 302, 303, 307, 308] {
        let redirect = || Answer::redirect(status, &other.url());
        assert_fault(redirect, |error| {
            error.kind() == "misconfigured" && error.to_string().contains("redirect")
        })
        .await;
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn html_page_is_unreadable_with_any_status() {
    for status in [200, 201, 400, 401, 403] {
        assert_fault(|| Answer::html(status), is_unreadable).await;
    }
    for status in [400, 401, 403, 418] {
        assert_fault(|| Answer::empty(status), is_unreadable).await;
    }
}

#[tokio::test]
async fn truncated_json_is_unreadable() {
    let whole = || Answer::json(200, grant());
    assert_fault(|| whole().truncated(), is_unreadable).await;
    assert_fault(|| whole().truncated().chunked(), is_unreadable).await;
}

#[tokio::test]
async fn connection_that_closes_within_a_response_is_unreachable() {
    assert_fault(|| Answer::json(200, grant()).cut_short(), is_unreachable).await;
    assert_fault(Answer::reset, is_unreachable).await;
}

#[tokio::test]
async fn body_of_ten_mebibytes_is_unreadable() {
    assert_fault(|| Answer::padded(200, OVERLONG), is_unreadable).await;
    assert_fault(|| Answer::padded(200, OVERLONG).chunked(), is_unreadable).await;
    assert_fault(|| Answer::padded(401, OVERLONG), is_unreadable).await;
}

#[tokio::test]
async fn server_of_another_protocol_is_unreadable() {
    assert_fault(Answer::not_http, is_unreadable).await;
}

#[tokio::test]
async fn closed_port_is_unreachable() {
    let closed_port = RefusingPort::start();
    for (operation, _) in OPERATIONS {
        let result = call(&adapter(&closed_port.url()), operation).await;
        assert_eq!(kind(&result), "unreachable", "{operation:?}");
    }
}

#[tokio::test]
async fn call_succeeds_after_the_server_has_started() {
    let port = RefusingPort::start();
    let keycloak = adapter(&port.url());
    assert_eq!(kind(&keycloak.probe().await), "unreachable");
    let upstream = ScriptedUpstream::in_place_of(port);
    upstream.in_good_health().on(INTROSPECTION, inactive());
    assert_eq!(keycloak.probe().await, Ok(()));
}

#[tokio::test]
async fn missing_or_endless_response_times_out_at_the_deadline() {
    let limit = CallLimit {
        deadline: Duration::from_secs(60),
        concurrency: 1,
    };
    for answer in [Answer::hanging(), Answer::dripping()] {
        for (operation, path) in OPERATIONS {
            let upstream = healthy(operation).await;
            upstream.on(path, answer.clone());
            let keycloak = Arc::new(adapter(&upstream.url()));
            let iam = resilient(keycloak, limit, Arc::new(SystemClock::default()));
            let in_flight = tokio::spawn(async move { call(&iam, operation).await });
            upstream.received(path, 1).await;
            pause();
            advance(limit.deadline).await;
            resume();
            let result = in_flight.await.expect("no panic");
            assert_eq!(
                result,
                Err(IamError::TimedOut(limit.deadline)),
                "{operation:?}"
            );
            upstream.disconnected(1).await;
        }
    }
}

#[tokio::test]
async fn cancelled_call_does_not_affect_the_next_one() {
    for (operation, path) in OPERATIONS {
        let upstream = healthy(operation).await;
        upstream.once(path, Answer::json(200, grant()).held());
        let keycloak = Arc::new(adapter(&upstream.url()));
        let in_flight = tokio::spawn({
            let keycloak = Arc::clone(&keycloak);
            async move { call(&*keycloak, operation).await }
        });
        upstream.received(path, 1).await;
        in_flight.abort();
        upstream.disconnected(1).await;
        let result = call(&*keycloak, operation).await;
        assert_eq!(result, Ok(()), "{operation:?} at {path}");
    }
}

fn is_unreadable(error: &IamError) -> bool {
    error.kind() == "unreadable"
}

fn is_unreachable(error: &IamError) -> bool {
    error.kind() == "unreachable"
}
