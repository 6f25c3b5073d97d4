//! The HTTP edge, byte by byte: responses to malformed, hostile and unusual requests.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use test_support::contract::Contract;
use test_support::endpoints::LOGIN;
use test_support::gateway::TestGateway;
use test_support::wire::{ALICE, Answer, Connection, post};

mod bodies;
mod connection_limit;
mod cors;
mod descriptions;
mod final_response;
mod framing;
mod hostile;
mod ids;
mod methods;
mod slow;

/// A gateway with the mock and its demo users.
fn gateway() -> TestGateway {
    TestGateway::start(&[])
}

/// A new connection to the API.
fn connect(gateway: &TestGateway) -> Connection<std::net::TcpStream> {
    Connection::to(gateway.addresses().public)
}

/// The response to one request on a new connection.
#[track_caller]
fn send(gateway: &TestGateway, request: impl AsRef<[u8]>) -> Answer {
    connect(gateway).send(request).answer()
}

/// Panics unless `openapi.yaml` describes the response and its form is right.
#[track_caller]
fn check_contract(method: &str, path: &str, answer: &Answer) {
    let mut headers = HeaderMap::new();
    for (name, value) in &answer.headers {
        let name = HeaderName::try_from(name).expect("a name");
        headers.append(name, HeaderValue::try_from(value).expect("a value"));
    }
    let body = answer.body.as_bytes();
    Contract::get().check(method, path, answer.status, &headers, body);
    in_form(answer);
}

/// Panics unless the response has a request id and, if it is an error, the form of an error.
#[track_caller]
fn in_form(answer: &Answer) {
    let id = answer.header("x-request-id").expect("an id");
    if answer.status < 400 {
        return;
    }
    assert_eq!(
        answer.header("cache-control"),
        Some("no-store"),
        "{answer:?}"
    );
    assert_eq!(
        answer.header("content-type"),
        Some("application/json"),
        "{answer:?}"
    );
    // The response to HEAD has no body.
    if !answer.body.is_empty() {
        let body = answer.json();
        assert_eq!(body["request_id"], id, "{answer:?}");
        assert_eq!(body.as_object().expect("an object").len(), 3, "{answer:?}");
    }
}

/// Panics unless this is that error, as `openapi.yaml` describes it.
#[track_caller]
pub(crate) fn refused(path: &str, answer: &Answer, status: u16, code: &str) {
    check_contract("POST", path, answer);
    assert_eq!(
        (answer.status, &answer.json()["error"]),
        (status, &json!(code)),
        "{answer:?}"
    );
}

/// A new session of the demo user.
#[track_caller]
fn session(gateway: &TestGateway) -> Value {
    send(gateway, post(LOGIN, ALICE)).json()
}
