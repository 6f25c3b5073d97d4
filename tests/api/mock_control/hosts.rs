//! The allowed hosts of the mock: a page with a name that resolves to this machine (DNS rebinding)
//! must not control it.

use std::net::SocketAddr;

use test_support::endpoints::LOGIN;
use test_support::wire::{ALICE, Answer, Connection, fetch};

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

const REFUSED: [&str; 10] = [
    "Host: evil.test\r\n",
    "Host: evil.test:9090\r\n",
    "Host: localhost.evil.test\r\n",
    "Host: 127.0.0.1.evil.test\r\n",
    "Host: gateway\r\n",
    "Host: localhost@evil.test\r\n",
    "Host: localhost:x\r\n",
    "Host: [::1\r\n",
    "Host: \r\n",
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
fn mock_is_served_under_ip_addresses_localhost_and_allowed_hosts_only() {
    let gateway = gateway_with(&[("iam.mock.allowed_hosts", "Mock.test, mock-2")]);
    let address = gateway.addresses().management;
    for host in REFUSED {
        for (method, path, body, _) in routes() {
            refused(&send(address, method, path, host, body));
        }
    }
    for host in [
        "127.0.0.1",
        "192.0.2.1:9090",
        "[::1]:9090",
        "localhost",
        "LOCALHOST:9090",
        "mock.localhost",
        "mock.test:9090",
        "mock-2",
    ] {
        let gateway = gateway_with(&[("iam.mock.allowed_hosts", "Mock.test, mock-2")]);
        let address = gateway.addresses().management;
        for (method, path, body, status) in routes() {
            let answer = send(address, method, path, &format!("Host: {host}\r\n"), body);
            assert_eq!(answer.status, status, "{host} {method} {path}: {answer:?}");
        }
    }
}

#[test]
fn a_request_for_the_mock_has_one_host() {
    let gateway = gateway();
    let address = gateway.addresses().management;
    let twice = send(
        address,
        "GET",
        "/mock/v1/status",
        "Host: a\r\nHost: localhost\r\n",
        "",
    );
    assert_eq!(twice.status, 400);
    let none = send(address, "GET", "/mock/v1/status", "", "");
    assert_eq!(none.status, 400);
    let mut older = Connection::to(address);
    let received = older.send("GET /mock/v1/status HTTP/1.0\r\n\r\n").rest();
    let received = String::from_utf8(received).expect("text");
    assert!(received.starts_with("HTTP/1.0 403 "), "{received}");
    let absolute = "http://evil.test/mock/v1/status";
    refused(&send(address, "GET", absolute, "Host: localhost\r\n", ""));
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
