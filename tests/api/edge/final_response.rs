//! A response with `connection: close` is the last one of its connection, whatever the client sends
//! afterwards (RFC 9112 section 9.6).

use std::time::Duration;

use test_support::endpoints::LOGIN;
use test_support::wire::{ALICE, Connection, get, in_chunks, post, with_header};

use super::slow::{BRIEF, with_timeouts_after};
use super::{connect, gateway, in_form};
use crate::metrics::exposition;

const POST: &str = "POST /api/v1/auth/login HTTP/1.1\r\nHost: gateway\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

/// Requests that end their connection, with the status of the response.
fn last_requests() -> Vec<(String, u16)> {
    let long = "a".repeat(20_000);
    vec![
        (format!("{POST}{JSON}Content-Length: 16385\r\n\r\n"), 413),
        (
            format!("{POST}{JSON}Content-Length: 18446744073709551615\r\n\r\n"),
            413,
        ),
        (in_chunks(LOGIN, &" ".repeat(17 * 1024), 4096), 413),
        (
            format!("{POST}Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n12345"),
            415,
        ),
        (
            format!("PUT {LOGIN} HTTP/1.1\r\nHost: gateway\r\nContent-Length: 5\r\n\r\n12345"),
            405,
        ),
        (
            format!("GET /nowhere HTTP/1.1\r\nHost: gateway\r\nX: {long}\r\n\r\n"),
            431,
        ),
        ("GARBAGE\r\n\r\n".to_owned(), 400),
        (
            format!("{POST}{JSON}Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
            400,
        ),
        (
            format!("{POST}{JSON}Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
            400,
        ),
        (
            format!("{POST}{JSON}Transfer-Encoding: chunked\r\n\r\n1\r\n{{x"),
            400,
        ),
        (with_header("Connection: close", &post(LOGIN, ALICE)), 200),
        (with_header("Connection: close", &post(LOGIN, "{")), 400),
        (with_header("Connection: close", &get("/nowhere")), 404),
    ]
}

/// What a client may send afterwards.
fn further() -> [String; 4] {
    [
        "a".repeat(21_000),
        get("/nowhere").repeat(500),
        post(LOGIN, ALICE).repeat(50),
        "GARBAGE\r\n\r\n".repeat(2_000),
    ]
}

#[track_caller]
fn one_response(mut connection: Connection<std::net::TcpStream>, status: u16, further: &str) {
    let answer = connection.answer();
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    in_form(&answer);
    connection.send(further).closed();
}

#[test]
fn nothing_follows_the_response_that_closes_a_connection() {
    let gateway = gateway();
    for (request, status) in last_requests() {
        for further in further() {
            let mut together = connect(&gateway);
            together.send(request.clone() + &further);
            one_response(together, status, "");

            let mut afterwards = connect(&gateway);
            afterwards.send(&request);
            one_response(afterwards, status, &further);
        }
    }
}

#[test]
fn nothing_follows_the_response_that_closes_a_connection_behind_others() {
    let gateway = gateway();
    for (request, status) in last_requests() {
        let mut connection = connect(&gateway);
        connection.send(get("/nowhere").repeat(3) + &request + &get("/nowhere").repeat(500));
        for _ in 0..3 {
            assert_eq!(connection.answer().status, 404, "{request}");
        }
        one_response(connection, status, &"a".repeat(21_000));
    }
}

#[test]
fn nothing_follows_the_response_to_a_request_of_http_1_0() {
    let gateway = gateway();
    for further in further() {
        let mut connection = connect(&gateway);
        connection.send(format!("GET /nowhere HTTP/1.0\r\n\r\n{further}"));
        let received = connection.send(&further).rest();
        let received = String::from_utf8(received).expect("text");
        assert_eq!(received.matches("HTTP/1.").count(), 1, "{received}");
        assert!(received.starts_with("HTTP/1.0 404 "), "{received}");
    }
}

#[test]
fn nothing_follows_a_408() {
    let forever = Duration::from_secs(3600);
    for (headers, body, request) in [
        (BRIEF, forever, "G".to_owned()),
        (BRIEF, forever, POST.to_owned()),
        (
            forever,
            BRIEF,
            format!("{POST}{JSON}Content-Length: 5\r\n\r\n1234"),
        ),
        (
            forever,
            BRIEF,
            format!("{POST}{JSON}Transfer-Encoding: chunked\r\n\r\n5\r\n1234"),
        ),
    ] {
        let requests = further().map(|_| request.clone());
        let (_gateway, connections) = with_timeouts_after(requests, |timeouts| {
            timeouts.head = headers;
            timeouts.body = body;
        });
        for (further, connection) in further().iter().zip(connections) {
            one_response(connection, 408, further);
        }
    }
}

#[test]
fn request_after_connection_close_is_not_served() {
    let gateway = gateway();
    let logins = || {
        let series = "auth_gateway_request_duration_seconds_count{route=\"login\"}";
        exposition(&gateway).count(series)
    };
    let last = with_header("Connection: close", &get("/nowhere"));
    let mut connection = connect(&gateway);
    connection.send(last + &post(LOGIN, ALICE));
    one_response(connection, 404, "");
    assert_eq!(logins(), 0);
    assert_eq!(super::send(&gateway, post(LOGIN, ALICE)).status, 200);
    assert_eq!(logins(), 1);
}
