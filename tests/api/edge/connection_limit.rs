//! More connections than the limit, and more requests than a worker can serve.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use test_support::endpoints::{LOGIN, TOKEN};
use test_support::gateway::{TestGateway, prepare, scripted_keycloak_settings};
use test_support::wire::{ALICE, get, post};

use super::{connect, in_form, refused};
use crate::metrics::exposition;

/// How many connections or requests the gateway refused or closed for this reason.
fn shed(gateway: &TestGateway, reason: &str) -> u64 {
    exposition(gateway).count(&format!("auth_gateway_shed_total{{reason=\"{reason}\"}}"))
}

fn with_max_connections(limit: &str) -> TestGateway {
    TestGateway::start(&[("http.max_connections", limit)])
}

#[test]
fn near_the_connection_limit_the_longest_idle_connection_is_closed() {
    let gateway = with_max_connections("4");
    let mut silent: Vec<_> = (0..3).map(|_| connect(&gateway)).collect();
    for index in 0..20 {
        // At the limit, the connection idle for the longest is closed without a response.
        silent.push(connect(&gateway));
        silent[index].closed();
    }
    assert_eq!(shed(&gateway, "idle"), 20);
    assert_eq!(shed(&gateway, "full"), 0);
    let mut last = silent.pop().expect("the last one");
    assert_eq!(last.send(post(LOGIN, ALICE)).answer().status, 200);
}

#[test]
fn connection_with_an_incomplete_request_is_closed_before_one_that_was_served() {
    let request = post(LOGIN, ALICE);
    for begin in ["", "POST ", &request[..request.len() - 1]] {
        let gateway = with_max_connections("5");
        let mut served = connect(&gateway);
        assert_eq!(served.send(&request).answer().status, 200);
        let mut owing = connect(&gateway);
        owing.send(begin);
        // Connections are accepted in their order, so the only worker has read that one when it
        // answers a later one.
        let mut later = connect(&gateway);
        assert_eq!(later.send(&request).answer().status, 200);
        assert_eq!(served.send(&request).answer().status, 200);
        // These two reach the limit, so one connection is closed.
        let _others = [connect(&gateway), connect(&gateway)];
        assert!(!String::from_utf8_lossy(&owing.rest()).contains(" 200 "));
        assert_eq!(served.send(&request).answer().status, 200);
    }
}

#[test]
fn connection_beyond_the_limit_is_refused_with_a_complete_503_response() {
    let never_answers = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", never_answers.local_addr().expect("bound"));
    let gateway = TestGateway::start(
        &[
            &scripted_keycloak_settings(&url)[..],
            &[
                ("http.max_connections", "1"),
                ("http.cors.allowed_origins", "https://app.example.test"),
                ("upstream.login_deadline", "1m"),
                ("upstream.probe_interval", "1h"),
            ],
        ]
        .concat(),
    );
    let _probe = never_answers.accept().expect("the first probe");
    let mut busy = connect(&gateway);
    busy.send(post(LOGIN, ALICE));
    let _login = never_answers.accept().expect("the login");

    let mut further = connect(&gateway);
    let answer = further.answer();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["error"], "temporarily_unavailable");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.header("retry-after").is_some());
    // Its request is unknown.
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    in_form(&answer);
    further.closed();
    assert_eq!((shed(&gateway, "full"), shed(&gateway, "idle")), (1, 0));
}

/// Every delay exceeds this limit once the worker has been measured.
#[test]
fn worker_that_is_behind_refuses_expensive_requests_and_keeps_the_connection() {
    let (settings, mut parts) = prepare(None, &[], Arc::new(SystemClock::default()));
    parts.timeouts.queue_delay = Duration::ZERO;
    let gateway = TestGateway::with_namespaces(settings, parts);
    let mut connection = connect(&gateway);
    let answer = loop {
        let answer = connection.send(post(LOGIN, ALICE)).answer();
        if answer.status != 200 {
            break answer;
        }
    };
    refused(LOGIN, &answer, 503, "temporarily_unavailable");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(answer.header("connection"), None);
    let answer = connection.send(post(TOKEN, "{}")).answer();
    refused(TOKEN, &answer, 503, "temporarily_unavailable");
    assert_eq!(connection.send(get("/openapi.yaml")).answer().status, 200);
    assert!(shed(&gateway, "behind") >= 2);
}
