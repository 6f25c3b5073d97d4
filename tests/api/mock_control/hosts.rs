//! The allowed hosts of the mock: a page with a name that resolves to this machine (DNS rebinding)
//! must not control it.

use std::net::SocketAddr;

use test_support::endpoints::LOGIN;
use test_support::wire::{ALICE, Answer, fetch};

use crate::namespace::{gateway, gateway_with};

const JSON: &str = "Content-Type: application/json\r\n";

fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{headers}{JSON}Content-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    fetch(address, request)
}

/// The paths of the mock other than health and metrics, and the status of a valid request.
fn routes() -> Vec<(&'static str, &'static str, &'static str, u16)> {
    let (user, password) = ("/mock/v1/users/alice@example.test", r#"{"password":"b"}"#);
    vec![
        ("GET", "/mock/v1/status", "", 200),
        ("POST", LOGIN, ALICE, 200),
        ("POST", "/mock/v1/tokens", r#"{"claims":{}}"#, 201),
        ("PATCH", user, password, 200),
        ("DELETE", "/mock/v1/sessions", "", 200),
        ("GET", "/mock/", "", 200),
        ("GET", "/mock/console.js", "", 200),
        ("GET", "/openapi.yaml", "", 200),
        ("GET", "/nowhere", "", 404),
    ]
}

const REFUSED: [&str; 2] = [
    "Host: evil.test\r\n",
    // The browser sends `Origin` for a page of that name.
    "Host: evil.test:9090\r\nOrigin: http://evil.test:9090\r\n",
];

#[track_caller]
fn refused(answer: &Answer) {
    assert_eq!(answer.status, 403, "{answer:?}");
    let body = answer.json();
    assert_eq!(body["error"], "forbidden", "{answer:?}");
    assert_eq!(
        body["request_id"],
        answer.header("x-request-id").expect("an id")
    );
    let message = body["error_description"].as_str().expect("a description");
    assert!(message.contains("iam.mock.allowed_hosts"), "{message}");
}

#[test]
fn mock_is_served_under_an_allowed_host_only() {
    let gateway = gateway_with(&[("iam.mock.allowed_hosts", "mock-2, Mock.test")]);
    let address = gateway.addresses().management;
    for (method, path, body, status) in routes() {
        for host in REFUSED {
            refused(&send(address, method, path, host, body));
        }
        let answer = send(address, method, path, "Host: mock.test:9090\r\n", body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
}

/// Orchestrators and scrapers use names of services and pods.
#[test]
fn health_and_metrics_are_served_under_every_host() {
    let gateway = gateway();
    let address = gateway.addresses().management;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        let answer = send(
            address,
            "GET",
            path,
            "Host: gateway-0.monitoring.svc:9090\r\n",
            "",
        );
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

/// The public listener is not part of the mock: proxies and clients use any name.
#[test]
fn the_public_listener_is_served_under_every_host() {
    let gateway = gateway();
    let address = gateway.addresses().public;
    let answer = send(address, "POST", LOGIN, "Host: auth.example.com\r\n", ALICE);
    assert_eq!(answer.status, 200, "{answer:?}");
}
