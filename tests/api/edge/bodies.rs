//! Size, content type and framing of request bodies.

use test_support::endpoints::LOGIN;
use test_support::wire::{ALICE, get, in_chunks, post};

use super::{connect, gateway, refused, send};

/// 16 KiB.
const LARGEST: usize = 16 * 1024;

/// A login padded with spaces to this size.
fn padded(size: usize) -> String {
    format!("{}{ALICE}", " ".repeat(size - ALICE.len()))
}

fn with_headers(headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {LOGIN} HTTP/1.1\r\nHost: gateway\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn body_is_limited_to_16_kib_in_either_framing() {
    let gateway = gateway();
    let (fits, exceeds) = (padded(LARGEST), padded(LARGEST + 1));
    assert_eq!(send(&gateway, post(LOGIN, &fits)).status, 200);
    refused(
        LOGIN,
        &send(&gateway, post(LOGIN, &exceeds)),
        413,
        "invalid_request",
    );
    for size in [1000, 4096, LARGEST + 1] {
        assert_eq!(
            send(&gateway, in_chunks(LOGIN, &fits, size)).status,
            200,
            "{size}"
        );
        let answer = send(&gateway, in_chunks(LOGIN, &exceeds, size));
        refused(LOGIN, &answer, 413, "invalid_request");
    }
}

#[test]
fn body_must_be_json_with_that_content_type() {
    let gateway = gateway();
    for headers in [
        "Content-Type: application/json\r\nContent-Encoding: identity\r\n",
        "Content-Type: application/json\r\nAccept: text/html\r\n",
    ] {
        let answer = send(&gateway, with_headers(headers, ALICE));
        assert_eq!(answer.status, 200, "{headers}: {answer:?}");
    }
    for headers in [
        "",
        "Content-Type:\r\n",
        "Content-Type: text/plain\r\nContent-Type: application/json\r\n",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        "Content-Type: application/json\r\nContent-Encoding: br\r\n",
        "Content-Type: application/json\r\nContent-Encoding: identity, gzip\r\n",
        "Content-Type: application/json\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n",
        "Content-Type: application/\u{e9}\r\n",
    ] {
        let answer = send(&gateway, with_headers(headers, ALICE));
        refused(LOGIN, &answer, 415, "invalid_request");
    }
}

#[test]
fn connection_stays_open_after_an_error_if_the_request_was_read_completely() {
    let gateway = gateway();
    let mut connection = connect(&gateway);
    for body in ["", "{", "[]", "null", r#"{"email":1}"#] {
        let answer = connection.send(post(LOGIN, body)).answer();
        refused(LOGIN, &answer, 400, "invalid_request");
        assert_eq!(answer.header("connection"), None);
    }
    let wrong = ALICE.replace("alice-pass", "wrong");
    refused(
        LOGIN,
        &connection.send(post(LOGIN, &wrong)).answer(),
        401,
        "invalid_grant",
    );
    let answer = connection.send(get("/nowhere")).answer();
    refused("/nowhere", &answer, 404, "invalid_request");
    assert_eq!(connection.send(post(LOGIN, ALICE)).answer().status, 200);
}

#[test]
fn request_with_an_incomplete_body_is_not_processed() {
    let gateway = gateway();
    // A space follows the login: what arrives is a complete login, of the wrong length.
    let request = post(LOGIN, &format!("{ALICE} "));
    let mut connection = connect(&gateway);
    connection.send(&request[..request.len() - 1]).finish();
    let answer = connection.rest();
    assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
    assert_eq!(send(&gateway, request).status, 200);
}

/// Such chunks cost far more to parse than the same bytes in one piece.
#[test]
fn body_in_tiny_chunks_is_refused_before_most_of_it_is_read() {
    let gateway = gateway();
    let tiny = in_chunks(LOGIN, &padded(LARGEST), 1);
    let mut connection = connect(&gateway);
    let answer = connection.send(&tiny).answer();
    refused(LOGIN, &answer, 413, "invalid_request");
    assert_eq!(answer.header("connection"), Some("close"));
    connection.closed();

    // Extensions and trailers do not count as data.
    let head = tiny.split_once("\r\n\r\n").expect("a head").0;
    let extension = format!("{head}\r\n\r\n1;{}\r\n \r\n", "e".repeat(9_000));
    let trailers = format!("{head}\r\n\r\n0\r\n{}", "x: y\r\n".repeat(2_000));
    for request in [extension, trailers] {
        let mut connection = connect(&gateway);
        let answer = connection.send(&request).answer();
        refused(LOGIN, &answer, 413, "invalid_request");
        assert_eq!(answer.header("connection"), Some("close"));
        connection.closed();
    }
}

#[test]
fn body_in_small_chunks_is_accepted() {
    let gateway = gateway();
    for size in [16, 17, 64, 1024] {
        let request = in_chunks(LOGIN, &padded(LARGEST), size);
        assert_eq!(send(&gateway, request).status, 200, "{size}");
    }
    assert_eq!(send(&gateway, in_chunks(LOGIN, ALICE, 1)).status, 200);
    assert_eq!(
        send(&gateway, in_chunks(LOGIN, &padded(700), 1)).status,
        200
    );
}
