//! More connections than the gateway takes, and more requests than it can serve.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use auth_gateway::startup::Parts;
use iam_adapters::clock::SystemClock;
use test_support::app::{TestApp, settings};
use test_support::endpoints::{LOGIN, TOKEN};
use test_support::wire::{ALICE, Connection, get, post};

use super::{connect, exchange, in_form, refused, session};

/// How many the gateway parted with.
fn shed(gateway: &TestApp, reason: &str) -> u64 {
    let series = format!("auth_gateway_shed_total{{reason=\"{reason}\"}} ");
    let answer = Connection::to(gateway.addresses().management)
        .send(get("/metrics"))
        .answer();
    let value = answer
        .body
        .lines()
        .find_map(|line| line.strip_prefix(&series));
    value.and_then(|value| value.parse().ok()).expect(reason)
}

fn with_places_for(most: &str) -> TestApp {
    let clock = Arc::new(SystemClock::default());
    TestApp::spawn(clock, &[("http.max_connections", most)])
}

#[test]
fn before_the_places_run_out_whoever_said_nothing_for_the_longest_makes_room() {
    let gateway = with_places_for("4");
    let mut silent: Vec<_> = (0..3).map(|_| connect(&gateway)).collect();
    for index in 0..20 {
        // The last place: the longest-waiting goes without a word, so that there is one more.
        silent.push(connect(&gateway));
        silent[index].closed();
    }
    assert_eq!(shed(&gateway, "idle"), 20);
    assert_eq!(shed(&gateway, "full"), 0);
    let mut last = silent.pop().expect("the last one");
    assert_eq!(last.send(post(LOGIN, ALICE)).answer().status, 200);
}

#[test]
fn whoever_owes_the_rest_of_a_request_goes_before_whoever_had_an_answer() {
    let request = post(LOGIN, ALICE);
    for begin in ["", "POST ", &request[..request.len() - 1]] {
        let gateway = with_places_for("4");
        let mut served = connect(&gateway);
        assert_eq!(served.send(&request).answer().status, 200);
        let mut owing = connect(&gateway);
        owing.send(begin);
        // With these two all places are taken, and one is made.
        let _others = [connect(&gateway), connect(&gateway)];
        assert!(!String::from_utf8_lossy(&owing.rest()).contains(" 200 "));
        assert_eq!(served.send(&request).answer().status, 200);
    }
}

#[test]
fn where_all_connections_are_at_work_a_further_one_is_refused_in_form() {
    let never_answers = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", never_answers.local_addr().expect("bound"));
    let clock = Arc::new(SystemClock::default());
    let gateway = TestApp::spawn(
        clock,
        &[
            ("http.max_connections", "1"),
            ("iam.keycloak.url", &url),
            ("iam.keycloak.realm", "shop"),
            ("iam.keycloak.client_id", "gateway"),
            ("iam.keycloak.client_secret", "a-secret-of-some-length"),
            ("upstream.login_deadline", "1m"),
            ("upstream.probe_interval", "1h"),
        ],
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
    in_form(&answer);
    further.closed();
    assert_eq!((shed(&gateway, "full"), shed(&gateway, "idle")), (1, 0));
}

/// Here any delay is too long, and there always is one once the worker has been measured.
#[test]
fn a_worker_that_is_behind_refuses_what_costs_and_the_connection_goes_on() {
    let settings = settings(&[]);
    let mut parts = Parts::prepare(&settings, Arc::new(SystemClock::default())).expect("parts");
    parts.timeouts.queue_delay = Duration::ZERO;
    let gateway = TestApp::run(settings, parts);
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

#[test]
fn a_worker_that_keeps_up_refuses_nobody() {
    let gateway = super::gateway();
    let request = exchange(&session(&gateway));
    for _ in 0..50 {
        assert_eq!(super::ask(&gateway, &request).status, 200);
    }
    assert_eq!(shed(&gateway, "behind"), 0);
}
