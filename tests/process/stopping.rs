//! SIGTERM and SIGINT: readiness fails, requests in progress finish, new ones are refused.

use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use test_support::endpoints::LOGIN;
use test_support::gateway::scripted_keycloak_settings;
use test_support::scripted_upstream::keycloak::{LOGOUT as END, TOKEN as GRANT, grant};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::wire::{ALICE, Connection, fetch, get, logout, post, with_header};

use crate::GATEWAY;

const SIGNALS: [&str; 2] = ["TERM", "INT"];

/// The log line of logouts that failed until the end.
const LOST: &str = "unfinished logouts are lost: their sessions at the IAM end when they expire";

/// The settings of a gateway in front of this Keycloak, which it probes once. The deadlines do not
/// expire on a busy machine.
fn behind(url: &str) -> Vec<(&'static str, &str)> {
    [
        &scripted_keycloak_settings(url)[..],
        &[
            ("upstream.probe_interval", "1h"),
            ("upstream.connect_deadline", "60s"),
            ("upstream.login_deadline", "60s"),
            ("upstream.logout_deadline", "60s"),
        ],
    ]
    .concat()
}

fn readiness(management: SocketAddr) -> (u16, Value) {
    let answer = fetch(management, get("/health/ready"));
    (answer.status, answer.json())
}

#[test]
fn idle_gateway_stops_at_once_with_open_connections() {
    for signal in SIGNALS {
        let mut program = GATEWAY.serve(&[("http.shutdown_deadline", "10m")]);
        let (public, _) = program.addresses();
        let (silent, mut kept) = (Connection::to(public), Connection::to(public));
        assert_eq!(kept.send(post(LOGIN, ALICE)).answer().status, 200);
        program.signal(signal);
        let ended = program.wait();
        assert_eq!(ended.code, Some(0), "{signal}: {ended:?}");
        let messages: Vec<_> = ended
            .log()
            .iter()
            .map(|line| line["message"].clone())
            .collect();
        assert!(
            messages.ends_with(&["stopping".into(), "stopped".into()]),
            "{messages:?}"
        );
        kept.closed();
        drop(silent);
    }
}

#[test]
fn readiness_fails_first_and_the_public_listener_serves_during_the_delay() {
    for signal in SIGNALS {
        let mut program = GATEWAY.serve(&[("http.shutdown_delay", "10m")]);
        let (public, management) = program.addresses();
        let mut kept = Connection::to(public);
        assert_eq!(kept.send(post(LOGIN, ALICE)).answer().status, 200);
        assert_eq!(readiness(management).0, 200);
        program.signal(signal);
        program.logged("stopping");
        let (status, report) = readiness(management);
        assert_eq!(
            (status, &report["status"]),
            (503, &"not_ready".into()),
            "{report}"
        );
        let reasons = report["reasons"].as_array().expect("reasons");
        assert!(
            reasons.iter().any(|reason| reason["code"] == "stopping"),
            "{report}"
        );
        let live = fetch(management, get("/health/live"));
        assert_eq!(live.status, 200);
        assert_eq!(kept.send(post(LOGIN, ALICE)).answer().status, 200);
        assert_eq!(fetch(public, post(LOGIN, ALICE)).status, 200);
    }
}

/// So that clients that keep connections open have left the replica when it stops.
#[test]
fn every_response_during_the_delay_ends_its_connection() {
    let mut program = GATEWAY.serve(&[("http.shutdown_delay", "10m")]);
    let (public, _) = program.addresses();
    let mut kept = Connection::to(public);
    for _ in 0..2 {
        let answer = kept.send(post(LOGIN, ALICE)).answer();
        assert_eq!((answer.status, answer.header("connection")), (200, None));
    }
    program.signal("TERM");
    program.logged("stopping");
    let new = Connection::to(public);
    for (mut connection, request, status) in [
        (kept, post(LOGIN, ALICE), 200),
        (new, post(LOGIN, "{}"), 400),
        (Connection::to(public), get("/.well-known/jwks.json"), 200),
        (Connection::to(public), get("/nowhere"), 404),
    ] {
        let answer = connection.send(request).answer();
        let ends = answer.header("connection") == Some("close");
        assert_eq!((answer.status, ends), (status, true), "{answer:?}");
        connection.closed();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_in_progress_is_answered_before_the_gateway_stops() {
    for signal in SIGNALS {
        let keycloak = ScriptedUpstream::keycloak().await;
        keycloak.once(GRANT, Answer::json(200, grant()).held());
        let mut program = GATEWAY.serve(&behind(&keycloak.url()));
        let (public, management) = program.addresses();
        let mut under_way = Connection::to(public);
        under_way.send(post(LOGIN, ALICE));
        keycloak.received(GRANT, 1).await;
        program.signal(signal);
        program.logged("stopping");
        assert_eq!(readiness(management).0, 503);
        keycloak.release();
        let answer = under_way.answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.json()["session_token"].is_string());
        under_way.closed();
        assert_eq!(program.wait().code, Some(0));
        assert!(TcpStream::connect(public).is_err());
    }
}

#[test]
fn incomplete_body_is_read_and_answered_before_the_gateway_stops() {
    let mut program = GATEWAY.serve(&[]);
    let (public, _) = program.addresses();
    let request = post(LOGIN, ALICE);
    let (begin, end) = request.split_at(request.len() - 20);
    // 100 shows that the request has reached its handler.
    let begin = with_header("Expect: 100-continue", begin);
    let mut under_way = Connection::to(public);
    assert_eq!(under_way.send(begin).answer().status, 100);
    program.signal("TERM");
    program.logged("stopping");
    let answer = under_way.send(end).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    under_way.closed();
    assert_eq!(program.wait().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_request_is_aborted_at_the_deadline_and_the_exit_code_is_zero() {
    let keycloak = ScriptedUpstream::keycloak().await;
    keycloak.once(GRANT, Answer::hanging());
    let url = keycloak.url();
    let settings = [&behind(&url)[..], &[("http.shutdown_deadline", "1ms")]].concat();
    let mut program = GATEWAY.serve(&settings);
    let (public, _) = program.addresses();
    let mut under_way = Connection::to(public);
    under_way.send(post(LOGIN, ALICE));
    keycloak.received(GRANT, 1).await;
    program.stop();
    under_way.closed();
}

/// Logs in on this connection. Returns the request that ends the session.
fn logout_of_new_session(connection: &mut Connection<TcpStream>) -> String {
    logout(&connection.send(post(LOGIN, ALICE)).answer().json())
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_logout_is_repeated_before_the_gateway_stops() {
    for status in [204, 503] {
        let keycloak = ScriptedUpstream::keycloak().await;
        keycloak.on(END, Answer::empty(503));
        let mut program = GATEWAY.serve(&behind(&keycloak.url()));
        let (public, _) = program.addresses();
        let mut connection = Connection::to(public);
        let logout = logout_of_new_session(&mut connection);
        assert_eq!(connection.send(logout).answer().status, 500);
        keycloak.on(END, Answer::empty(status));
        let ended = program.stop();
        assert!(keycloak.requests_to(END).len() >= 2);
        let log = ended.log();
        let is_lost = log.iter().any(|line| line["message"] == LOST);
        assert_eq!(is_lost, status == 503, "{log:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logout_that_is_aborted_at_the_deadline_is_repeated_before_the_gateway_stops() {
    for (again, lost) in [(Answer::empty(204), false), (Answer::hanging(), true)] {
        let keycloak = ScriptedUpstream::keycloak().await;
        keycloak.once(END, Answer::hanging()).on(END, again);
        let url = keycloak.url();
        let settings = [&behind(&url)[..], &[("http.shutdown_deadline", "1ms")]].concat();
        let mut program = GATEWAY.serve(&settings);
        let (public, _) = program.addresses();
        let mut under_way = Connection::to(public);
        let logout = logout_of_new_session(&mut under_way);
        under_way.send(logout);
        keycloak.received(END, 1).await;
        let ended = program.stop();
        under_way.closed();
        assert_eq!(keycloak.requests_to(END).len(), 2);
        let log = ended.log();
        let is_lost = log.iter().any(|line| line["message"] == LOST);
        assert_eq!(is_lost, lost, "{log:?}");
    }
}
