//! Slow clients that keep a connection open.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use auth_gateway::config::Settings;
use auth_gateway::startup::ServiceDependencies;
use auth_gateway_server::ConnectionTimeouts;
use iam_adapters::clock::SystemClock;
use test_support::endpoints::LOGIN;
use test_support::gateway::{TestGateway, prepare};
use test_support::wire::{ALICE, Connection, get, post};

use super::{connect, refused};

const FOR_EVER: Duration = Duration::from_secs(3600);
pub(super) const BRIEF: Duration = Duration::from_millis(50);

/// A gateway whose timeouts are long, except those that a test changes.
pub(super) fn with_timeouts(change: impl FnOnce(&mut ConnectionTimeouts)) -> TestGateway {
    let (settings, parts) = settings_and_parts(change);
    TestGateway::with_namespaces(settings, parts)
}

/// The same, and a connection for each text. The text is sent before the gateway accepts the connection: on a busy
/// machine, more time than [`BRIEF`] can pass between the connection and its first bytes.
pub(super) fn with_timeouts_after<S: Into<String>>(
    sent: impl IntoIterator<Item = S>,
    change: impl FnOnce(&mut ConnectionTimeouts),
) -> (TestGateway, impl Iterator<Item = Connection<TcpStream>>) {
    let sent: Vec<String> = sent.into_iter().map(Into::into).collect();
    let (settings, parts) = settings_and_parts(change);
    let (sender, connections) = mpsc::channel();
    let gateway = TestGateway::build(settings, parts, move |settings, parts| {
        let application = auth_gateway_dev::build(settings, parts)?;
        for text in sent {
            let mut connection = Connection::to(application.addresses().public);
            connection.send(text);
            sender.send(connection).expect("the test waits for them");
        }
        Ok(application)
    });
    (gateway, connections.into_iter())
}

fn settings_and_parts(
    change: impl FnOnce(&mut ConnectionTimeouts),
) -> (Settings, ServiceDependencies) {
    let (settings, mut parts) = prepare(None, &[], Arc::new(SystemClock::default()));
    parts.timeouts = ConnectionTimeouts {
        head: FOR_EVER,
        body: FOR_EVER,
        write: FOR_EVER,
        idle: FOR_EVER,
        queue_delay: FOR_EVER,
    };
    change(&mut parts.timeouts);
    (settings, parts)
}

/// Beginnings of a head.
const BEGINNINGS: [&str; 2] = ["G", "GET /nowhere HTTP/1.1\r\nHost: gateway\r\n"];

#[test]
fn body_that_does_not_arrive_in_time_is_a_408() {
    let gateway = with_timeouts(|timeouts| timeouts.body = BRIEF);
    let request = post(LOGIN, ALICE);
    let mut connection = connect(&gateway);
    connection.send(&request[..request.len() - 1]);
    refused(LOGIN, &connection.answer(), 408, "invalid_request");
    connection.closed();
}

/// A response without a request could be taken for that of the next request.
#[test]
fn connection_without_a_request_is_closed_without_a_response() {
    let gateway = with_timeouts(|timeouts| timeouts.head = BRIEF);
    connect(&gateway).closed();
}

#[test]
fn late_headers_of_a_later_request_close_the_connection() {
    let requests = BEGINNINGS.map(|_| get("/nowhere"));
    let (_gateway, connections) = with_timeouts_after(requests, |timeouts| timeouts.head = BRIEF);
    for (begin, mut connection) in BEGINNINGS.into_iter().zip(connections) {
        assert_eq!(connection.answer().status, 404);
        connection.send(begin).closed();
    }
}

#[test]
fn idle_connection_is_closed_after_its_timeout() {
    let gateway = with_timeouts(|timeouts| timeouts.idle = BRIEF);
    let mut connection = connect(&gateway);
    assert_eq!(connection.send(post(LOGIN, ALICE)).answer().status, 200);
    connection.closed();
}

#[test]
fn unread_body_does_not_keep_a_connection_open() {
    let requests = [
        ("Content-Length: 100", "{"),
        ("Transfer-Encoding: chunked", "64\r\n{"),
    ];
    let requests = requests.map(|(framing, begin)| {
        format!("PUT {LOGIN} HTTP/1.1\r\nHost: gateway\r\n{framing}\r\n\r\n{begin}")
    });
    let (_gateway, connections) = with_timeouts_after(requests, |timeouts| {
        timeouts.head = BRIEF;
        timeouts.idle = BRIEF;
    });
    for mut connection in connections {
        refused(LOGIN, &connection.answer(), 405, "invalid_request");
        connection.closed();
    }
}

/// More requests than all buffers can hold, and the client reads no response.
#[test]
fn responses_that_the_client_does_not_read_close_the_connection() {
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

/// A client that sends faster than it reads receives all responses in order.
#[test]
fn slow_reader_receives_all_responses() {
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
