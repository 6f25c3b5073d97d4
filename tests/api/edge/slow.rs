//! Clients that take their time, and hold a connection by it.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use auth_gateway::server::ConnectionTimeouts;
use auth_gateway::startup::Parts;
use iam_adapters::clock::SystemClock;
use test_support::endpoints::LOGIN;
use test_support::gateway::{TestGateway, settings};
use test_support::wire::{ALICE, get, post};

use super::{connect, in_form, refused};

const FOR_EVER: Duration = Duration::from_secs(3600);
pub(super) const BRIEF: Duration = Duration::from_millis(50);

/// Waits for ever, but for what a test changes.
pub(super) fn with_timeouts(change: impl FnOnce(&mut ConnectionTimeouts)) -> TestGateway {
    let settings = settings(&[]);
    let mut parts = Parts::prepare(&settings, Arc::new(SystemClock::default())).expect("parts");
    parts.timeouts = ConnectionTimeouts {
        head: FOR_EVER,
        body: FOR_EVER,
        write: FOR_EVER,
        idle: FOR_EVER,
        queue_delay: FOR_EVER,
    };
    change(&mut parts.timeouts);
    TestGateway::with_namespaces(settings, parts)
}

#[test]
fn a_body_that_does_not_come_in_time_is_given_up_in_form() {
    let gateway = with_timeouts(|timeouts| timeouts.body = BRIEF);
    let request = post(LOGIN, ALICE);
    let mut connection = connect(&gateway);
    connection.send(&request[..request.len() - 1]);
    refused(LOGIN, &connection.answer(), 408, "invalid_request");
    connection.closed();
}

#[test]
fn headers_that_do_not_come_in_time_end_the_connection() {
    let gateway = with_timeouts(|timeouts| timeouts.head = BRIEF);
    for begin in ["G", "GET /nowhere HTTP/1.1\r\nHost: gateway\r\n"] {
        let mut connection = connect(&gateway);
        let answer = connection.send(begin).answer();
        assert_eq!(answer.status, 408);
        assert_eq!(answer.header("connection"), Some("close"));
        in_form(&answer);
        connection.closed();
    }
}

/// An answer that nobody asked for could be taken for that of the next request.
#[test]
fn a_connection_on_which_nothing_comes_is_closed_without_a_word() {
    let gateway = with_timeouts(|timeouts| timeouts.head = BRIEF);
    connect(&gateway).closed();
}

#[test]
fn headers_of_a_later_request_that_do_not_come_in_time_end_the_connection_as_well() {
    let gateway = with_timeouts(|timeouts| timeouts.head = BRIEF);
    for begin in ["G", "GET /nowhere HTTP/1.1\r\nHost: gateway\r\n"] {
        let mut connection = connect(&gateway);
        assert_eq!(connection.send(get("/nowhere")).answer().status, 404);
        connection.send(begin).closed();
    }
}

#[test]
fn a_connection_without_a_further_request_is_closed_in_time() {
    let gateway = with_timeouts(|timeouts| timeouts.idle = BRIEF);
    let mut connection = connect(&gateway);
    assert_eq!(connection.send(post(LOGIN, ALICE)).answer().status, 200);
    connection.closed();
}

#[test]
fn a_body_that_nobody_wants_holds_no_connection_for_ever() {
    let gateway = with_timeouts(|timeouts| {
        timeouts.head = BRIEF;
        timeouts.idle = BRIEF;
    });
    for (framing, begin) in [
        ("Content-Length: 100", "{"),
        ("Transfer-Encoding: chunked", "64\r\n{"),
    ] {
        let request = format!("PUT {LOGIN} HTTP/1.1\r\nHost: gateway\r\n{framing}\r\n\r\n{begin}");
        let mut connection = connect(&gateway);
        refused(
            LOGIN,
            &connection.send(request).answer(),
            405,
            "invalid_request",
        );
        connection.closed();
    }
}

/// More requests than all buffers between the two can hold, and none of the answers is read.
#[test]
fn answers_that_nobody_takes_end_the_connection() {
    let gateway = with_timeouts(|timeouts| timeouts.write = BRIEF);
    let requests = get("/openapi.yaml").repeat(1000);
    let mut connection = connect(&gateway);
    for _ in 0..400 {
        connection.send(&requests);
    }
    let taken = connection.rest();
    let answers = String::from_utf8_lossy(&taken)
        .matches("HTTP/1.1 200")
        .count();
    assert!((1..10_000).contains(&answers), "{answers}");
}

/// What was asked for is all answered, in order, to a client that asks faster than it reads.
#[test]
fn a_client_that_takes_its_answers_late_gets_them_all() {
    let gateway = with_timeouts(|_| {});
    let mut connection = connect(&gateway);
    let mut asking = connection.stream().try_clone().expect("a second hand");
    let asker = std::thread::spawn(move || {
        let requests = get("/nowhere").repeat(100);
        for _ in 0..50 {
            asking
                .write_all(requests.as_bytes())
                .expect("an open connection");
        }
    });
    for _ in 0..5000 {
        assert_eq!(connection.answer().status, 404);
    }
    asker.join().expect("all were sent");
}
