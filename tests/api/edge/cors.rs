//! Requests of browsers from pages of other origins.

use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::gateway::TestGateway;
use test_support::wire::{
    ALICE, Answer, bare, exchange, fetch, get, in_chunks, logout, post, with_header,
};

use super::{connect, in_form, send, session};
use crate::metrics::exposition;

const APP: &str = "https://app.example.test";
const LOCAL: &str = "http://localhost:3000";
const EXPOSED: &str = "retry-after, x-request-id";
const HEADERS: [&str; 6] = [
    "access-control-allow-origin",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-expose-headers",
    "access-control-max-age",
    "vary",
];

fn gateway() -> TestGateway {
    TestGateway::start(&[
        ("http.cors.allowed_origins", &format!("{APP}, {LOCAL}")),
        ("login_limits.account_failures", "1"),
    ])
}

/// The same request from a page of this origin.
fn from(origin: &str, request: &str) -> String {
    with_header(&format!("Origin: {origin}"), request)
}

fn preflight(origin: &str, path: &str) -> String {
    let asked =
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type";
    with_header(asked, &from(origin, &bare("OPTIONS", path)))
}

/// Panics unless exactly these of the headers for browsers are there, in the order of [`HEADERS`].
#[track_caller]
fn has(answer: &Answer, expected: [Option<&str>; 6]) {
    let found = HEADERS.map(|name| answer.header(name));
    assert_eq!(found, expected, "{answer:?}");
    let credentials = answer.header("access-control-allow-credentials");
    assert_eq!(credentials, None, "{answer:?}");
}

#[track_caller]
fn readable(answer: &Answer, origin: &str) {
    let vary = Some("Origin");
    has(
        answer,
        [Some(origin), None, None, Some(EXPOSED), None, vary],
    );
}

/// Requests to the three endpoints, with the status of their responses.
fn requests(gateway: &TestGateway) -> Vec<(String, u16)> {
    let session = session(gateway);
    let wrong = r#"{"email":"alice@example.test","password":"wrong"}"#;
    let without_type = post(LOGIN, ALICE).replace("application/json", "text/plain");
    let large = in_chunks(TOKEN, &" ".repeat(17 * 1024), 4096);
    vec![
        (exchange(&session), 200),
        (post(TOKEN, "{"), 400),
        (
            post(LOGOUT, r#"{"session_id":"a","session_token":"b"}"#),
            400,
        ),
        (logout(&session), 200),
        (exchange(&session), 401),
        (post(LOGIN, ALICE), 200),
        (post(LOGIN, wrong), 401),
        (post(LOGIN, wrong), 429),
        (bare("PUT", LOGIN), 405),
        (bare("OPTIONS", LOGIN), 405),
        (large, 413),
        (without_type, 415),
    ]
}

#[test]
fn every_response_of_the_endpoints_is_readable_for_an_allowed_origin() {
    for origin in [APP, LOCAL] {
        let gateway = gateway();
        for (request, status) in requests(&gateway) {
            let answer = send(&gateway, from(origin, &request));
            assert_eq!(answer.status, status, "{request}");
            readable(&answer, origin);
            in_form(&answer);
        }
    }
}

#[test]
fn no_response_is_readable_for_another_origin() {
    let gateway = gateway();
    let unreadable = |request: &str, status: u16| {
        let answer = send(&gateway, request);
        assert_eq!(answer.status, status, "{request}");
        has(&answer, [None, None, None, None, None, Some("Origin")]);
    };
    for origin in [
        "null",
        "https://evil.test",
        "http://app.example.test",
        "https://app.example.test:8443",
        "https://app.example.test.evil.test",
        "https://APP.example.test",
        "https://app.example.test/",
        "http://localhost",
        "*",
    ] {
        unreadable(&from(origin, &post(LOGIN, ALICE)), 200);
    }
    let evil = "https://evil.test";
    unreadable(&preflight(evil, LOGIN), 405);
    for (request, status) in requests(&gateway) {
        unreadable(&from(evil, &request), status);
    }
}

#[test]
fn response_to_a_request_without_an_origin_varies_by_it() {
    let gateway = gateway();
    let answer = send(&gateway, post(LOGIN, ALICE));
    has(&answer, [None, None, None, None, None, Some("Origin")]);
}

#[test]
fn preflight_of_an_allowed_origin_is_answered_and_may_be_kept() {
    let gateway = gateway();
    for path in [LOGIN, TOKEN, LOGOUT] {
        let mut connection = connect(&gateway);
        let answer = connection.send(preflight(APP, path)).answer();
        assert_eq!(answer.status, 204, "{answer:?}");
        let allowed = Some("content-type, x-request-id");
        let (vary, max_age) = (Some("Origin"), Some("7200"));
        has(
            &answer,
            [
                Some(APP),
                Some("POST"),
                allowed,
                Some(EXPOSED),
                max_age,
                vary,
            ],
        );
        in_form(&answer);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(connection.send(post(path, "[]")).answer().status, 400);
    }
    let of = |route| format!("auth_gateway_requests_total{{outcome=\"ok\",route=\"{route}\"}}");
    assert_eq!(exposition(&gateway).count(&of("other")), 3);
    assert_eq!(exposition(&gateway).count(&of("login")), 0);
}

#[test]
fn refusal_of_a_connection_is_readable_for_every_origin_if_some_are_allowed() {
    let long = "a".repeat(9_000);
    let too_large = with_header(&format!("X: {long}"), &post(LOGIN, ALICE));
    let refused = [("GARBAGE\r\n\r\n", 400), (&too_large, 431)];
    let (with, without) = (gateway(), super::gateway());
    for (request, status) in refused {
        let answer = send(&with, from(APP, request));
        assert_eq!(answer.status, status, "{answer:?}");
        has(&answer, [Some("*"), None, None, Some(EXPOSED), None, None]);
        let answer = send(&without, from(APP, request));
        assert_eq!(answer.status, status, "{answer:?}");
        has(&answer, [None; 6]);
    }
}

#[test]
fn without_allowed_origins_no_response_of_the_endpoints_is_readable() {
    let gateway = super::gateway();
    for request in [post(LOGIN, ALICE), post(TOKEN, "{"), preflight(APP, LOGIN)] {
        has(&send(&gateway, from(APP, &request)), [None; 6]);
    }
}

#[test]
fn published_documents_are_readable_for_every_origin() {
    for gateway in [gateway(), super::gateway()] {
        for path in [
            "/.well-known/jwks.json",
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
            "/openapi.yaml",
        ] {
            for origin in [APP, "https://evil.test", "null"] {
                let answer = send(&gateway, from(origin, &get(path)));
                assert_eq!(answer.status, 200, "{answer:?}");
                has(&answer, [Some("*"), None, None, Some(EXPOSED), None, None]);
            }
        }
    }
}

#[test]
fn operators_and_the_iam_have_no_browsers() {
    let gateway = gateway();
    let addresses = gateway.addresses();
    for (address, path) in [
        (addresses.public, "/api/v1/auth/backchannel-logout"),
        (addresses.management, "/health/ready"),
        (addresses.management, "/admin/v1/sessions/revoke"),
    ] {
        for request in [get(path), post(path, "{}"), bare("OPTIONS", path)] {
            has(&fetch(address, from(APP, &request)), [None; 6]);
        }
    }
}
