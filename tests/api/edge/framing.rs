//! Where one request ends and the next begins. A client that makes two parties disagree about that
//! can send requests as another client (request smuggling).

use test_support::endpoints::{LOGIN, TOKEN};
use test_support::wire::{ALICE, bare, chunked, get, in_chunks, post, with_header};

use super::{connect, gateway, in_form, refused, send};

const JSON: &str = "Host: gateway\r\nContent-Type: application/json\r\n";

#[test]
fn malformed_or_ambiguous_request_is_refused_and_the_connection_is_closed() {
    let gateway = gateway();
    let (length, chunks) = (ALICE.len(), chunked(ALICE, 10));
    let login =
        |headers: &str, body: &str| format!("POST {LOGIN} HTTP/1.1\r\n{JSON}{headers}\r\n{body}");
    for request in [
        "GARBAGE\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\0\u{5}hello\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET /nowhere HTTP/1.1\r\n\r\n".to_owned(),
        "GET /nowhere HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(),
        "GET /nowhere HTTP/1.1\r\nHost : gateway\r\n\r\n".to_owned(),
        "GET /nowhere HTTP/1.1\r\nHost: gateway\r\nX: a\r\n b\r\n\r\n".to_owned(),
        "GET /no where HTTP/1.1\r\nHost: gateway\r\n\r\n".to_owned(),
        "GET /nowhere#a HTTP/1.1\r\nHost: gateway\r\n\r\n".to_owned(),
        login(&format!("Content-Length: {length}\r\n"), ALICE)
            .replace(LOGIN, &format!("{LOGIN}#a")),
        "GET /nowhere HTTP/1.1\r\nHost: gateway\r\nX: \0\r\n\r\n".to_owned(),
        login(
            &format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
            &chunks,
        ),
        login(
            &format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
            &chunks,
        ),
        login(
            &format!("Content-Length: {length}\r\nContent-Length: {length}\r\n"),
            ALICE,
        ),
        login(
            &format!("Content-Length: {length}\r\nContent-Length: 0\r\n"),
            ALICE,
        ),
        login(&format!("Content-Length: {length}, {length}\r\n"), ALICE),
        login(&format!("Content-Length: +{length}\r\n"), ALICE),
        login(&format!("Content-Length: -{length}\r\n"), ALICE),
        login(&format!("Content-Length: {length}a\r\n"), ALICE),
        login("Content-Length: 0x10\r\n", ALICE),
        login("Content-Length: 99999999999999999999999999\r\n", ALICE),
        login("Transfer-Encoding: xchunked\r\n", &chunks),
        login("Transfer-Encoding: chunked, identity\r\n", &chunks),
        login("Transfer-Encoding: gzip, chunked\r\n", &chunks),
        login(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            &chunks,
        ),
        login("Transfer-Encoding : chunked\r\n", &chunks),
    ] {
        let mut connection = connect(&gateway);
        let answer = connection.send(&request).send(get("/nowhere")).answer();
        assert_eq!(answer.status, 400, "{request:?}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{request:?}");
        in_form(&answer);
        connection.closed();
    }
}

#[test]
fn malformed_chunks_end_the_request_and_the_connection() {
    let gateway = gateway();
    for chunks in [
        "zz\r\n",
        "-1\r\n{}\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "1\r\n{}0\r\n\r\n",
    ] {
        let request =
            format!("POST {LOGIN} HTTP/1.1\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n{chunks}");
        let mut connection = connect(&gateway);
        let answer = connection.send(request).send(get("/nowhere")).answer();
        refused(LOGIN, &answer, 400, "invalid_request");
        connection.closed();
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let gateway = gateway();
    let wrong = ALICE.replace("alice-pass", "wrong");
    let row = [
        (post(LOGIN, ALICE), 200),
        (get("/openapi.yaml"), 200),
        (post(LOGIN, &wrong), 401),
        (get("/nowhere"), 404),
        (post(TOKEN, "{}"), 400),
        (bare("DELETE", LOGIN), 405),
        (post(LOGIN, ALICE), 200),
    ];
    let mut connection = connect(&gateway);
    let requests: String = row.iter().map(|(request, _)| request.as_str()).collect();
    connection.send(requests);
    for (request, status) in row {
        assert_eq!(connection.answer().status, status, "{request}");
    }
}

#[test]
fn request_sent_byte_by_byte_is_served() {
    let gateway = gateway();
    let mut connection = connect(&gateway);
    for byte in post(LOGIN, ALICE).bytes() {
        connection.send([byte]);
    }
    assert_eq!(connection.answer().status, 200);
}

#[test]
fn expect_100_continue_receives_100() {
    let gateway = gateway();
    let request = with_header("Expect: 100-continue", &post(LOGIN, ALICE));
    let (head, body) = request.split_at(request.len() - ALICE.len());
    let mut connection = connect(&gateway);
    assert_eq!(connection.send(head).answer().status, 100);
    assert_eq!(connection.send(body).answer().status, 200);
}

/// Header lines that offer an upgrade.
const UPGRADES: [&str; 9] = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Connection: Upgrade\r\nUpgrade: websocket",
    "connection: UPGRADE\r\nupgrade: WebSocket",
    "Connection: keep-active, Upgrade\r\nUpgrade: websocket",
    "Connection: upgrade , keep-active\r\nUpgrade: websocket, h2c",
    "Connection: keep-active\r\nConnection: Upgrade\r\nUpgrade: websocket",
    "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\nUpgrade: websocket",
    // As Java's HTTP client sends it.
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
];

/// RFC 9110 section 7.8: a server may ignore an upgrade and process the request.
#[test]
fn upgrade_is_ignored_and_the_connection_stays_open() {
    let gateway = gateway();
    for upgrade in UPGRADES {
        for request in [post(LOGIN, ALICE), in_chunks(LOGIN, ALICE, 10)] {
            let mut connection = connect(&gateway);
            connection.send(with_header(upgrade, &request) + &get("/nowhere"));
            let answer = connection.answer();
            assert_eq!(answer.status, 200, "{upgrade}: {answer:?}");
            assert_eq!(answer.header("connection"), None, "{upgrade}");
            assert_eq!(connection.answer().status, 404, "{upgrade}");
            let next = connection.send(post(LOGIN, ALICE)).answer();
            assert_eq!(next.status, 200, "{upgrade}");
        }
        let request = with_header(upgrade, &get("/nowhere"));
        let mut connection = connect(&gateway);
        for _ in 0..3 {
            assert_eq!(connection.send(&request).answer().status, 404, "{upgrade}");
        }
    }
}

#[test]
fn upgrade_does_not_override_connection_close() {
    let gateway = gateway();
    for options in ["close, Upgrade", "Upgrade, close"] {
        let upgrade = format!("Connection: {options}\r\nUpgrade: websocket\r\n");
        let request = format!("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n{upgrade}\r\n");
        let mut connection = connect(&gateway);
        let answer = connection.send(request).answer();
        assert_eq!(answer.status, 404);
        assert_eq!(answer.header("connection"), Some("close"));
        connection.closed();
    }
}

/// The bytes after it are for a tunnel that the gateway does not open, and are no request.
#[test]
fn connect_is_refused_and_ends_the_connection() {
    let gateway = gateway();
    for target in ["gateway:443", LOGIN, "/nowhere"] {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: gateway\r\n\r\n");
        let mut connection = connect(&gateway);
        let answer = connection.send(request + &get("/nowhere")).answer();
        assert!([400, 404, 405].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
        in_form(&answer);
        connection.closed();
    }
}

/// A request with a head of this size, in different ways.
fn with_head_of(bytes: usize) -> [String; 3] {
    let line = "GET /nowhere HTTP/1.1\r\nHost: gateway\r\n";
    let left = bytes - line.len() - 4;
    let one = format!("{line}X: {}\r\n\r\n", "a".repeat(left - 3));
    let many = 80;
    let each = format!("X: {}\r\n", "a".repeat(left / many - 5)).repeat(many);
    let path = line.replace("nowhere", &"n".repeat(left));
    [one, format!("{line}{each}\r\n"), format!("{path}\r\n")]
}

#[test]
fn request_head_is_limited_to_8_kib() {
    let gateway = gateway();
    for request in with_head_of(7 * 1024) {
        assert_eq!(send(&gateway, request).status, 404);
    }
    // The second is refused after parsing, the last before it is complete.
    for bytes in [9 * 1024, 20_000, 200_000] {
        for request in with_head_of(bytes) {
            for before in [String::new(), get("/nowhere")] {
                let mut connection = connect(&gateway);
                connection.send(before.clone() + &request);
                if !before.is_empty() {
                    assert_eq!(connection.answer().status, 404);
                }
                let answer = connection.answer();
                assert_eq!(answer.status, 431, "{bytes}: {answer:?}");
                assert_eq!(answer.json()["error"], "invalid_request");
                assert_eq!(answer.header("connection"), Some("close"));
                in_form(&answer);
                connection.closed();
            }
        }
    }
}

#[test]
fn too_many_headers_are_refused() {
    let gateway = gateway();
    let many = (0..200)
        .map(|n| format!("X-{n}: a\r\n"))
        .collect::<Vec<_>>()
        .concat();
    let many = format!("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n{many}\r\n");
    for (request, status) in [(many.as_str(), 431), ("GARBAGE\r\n\r\n", 400)] {
        // After other requests, whose responses are unaffected.
        for before in [0, 1, 20] {
            let mut connection = connect(&gateway);
            connection.send(get("/nowhere").repeat(before) + request);
            for _ in 0..before {
                assert_eq!(connection.answer().status, 404);
            }
            let answer = connection.answer();
            assert_eq!(answer.status, status, "{answer:?}");
            assert_eq!(answer.header("connection"), Some("close"));
            in_form(&answer);
            connection.closed();
        }
    }
}

#[test]
fn limit_of_the_head_excludes_the_body_and_further_requests() {
    let gateway = gateway();
    let padded = format!("{}{ALICE}", " ".repeat(16 * 1024 - ALICE.len()));
    let mut connection = connect(&gateway);
    connection.send(post(LOGIN, &padded).repeat(10));
    for _ in 0..10 {
        assert_eq!(connection.answer().status, 200);
    }
    connection.send(get("/nowhere").repeat(2000));
    for _ in 0..2000 {
        assert_eq!(connection.answer().status, 404);
    }
}
