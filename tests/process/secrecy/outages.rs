//! An IAM that fails or is slow, and gateways with more requests than they can serve.

use std::collections::BTreeSet;

use serde_json::json;
use test_support::endpoints::LOGIN;
use test_support::scripted_upstream::keycloak::{TOKEN as GRANT, grant};
use test_support::scripted_upstream::{Answer, PROTOCOLS, ScriptedUpstream, WireProtocol};
use test_support::secrecy::{EMAIL, PASSWORD, SecrecyFixture, UPSTREAM_TEXT};
use test_support::wire::{logout, post};

use crate::GATEWAY;

/// Cached data is stale after a second, and one login at a time is allowed.
const TIGHT: [(&str, &str); 8] = [
    ("stale_if_error", "5m"),
    ("session.freshness", "1s"),
    ("permissions.ttl", "1s"),
    ("upstream.introspection_deadline", "1s"),
    ("upstream.login_deadline", "1s"),
    ("upstream.login_concurrency", "1"),
    ("login_limits.rate", "0"),
    ("http.workers", "1"),
];

/// Several times as many as a slow machine needs.
const ATTEMPTS: u32 = 400;

/// Repeats this until a line of readiness or metrics is one of those that are waited for.
fn repeat_until(
    fixture: &mut SecrecyFixture,
    is_wanted: impl Fn(&str) -> bool,
    mut repeated: impl FnMut(&mut SecrecyFixture),
) {
    for _ in 0..ATTEMPTS {
        if fixture.read_management().lines().any(&is_wanted) {
            return;
        }
        repeated(fixture);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!(
        "not after {ATTEMPTS} attempts: {}",
        fixture.read_management()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn open_circuit_and_stale_data_write_no_secret() {
    for protocol in &PROTOCOLS {
        open_circuit_writes_no_secret(protocol).await;
    }
}

async fn open_circuit_writes_no_secret(protocol: &WireProtocol) {
    let mut fixture = SecrecyFixture::over(protocol, GATEWAY, 1, &TIGHT).await;
    let session = fixture.log_in(PASSWORD, 200);
    fixture.exchange(0, &session, 200);
    let failing = Answer::text(503, "text/plain", UPSTREAM_TEXT);
    fixture.iam.on(protocol.introspection, failing.clone());
    fixture.iam.on(protocol.token, failing);
    let is_stale = |line: &str| {
        line.starts_with("auth_gateway_exchanges_total{source=\"stale\"") && !line.ends_with(" 0")
    };
    repeat_until(&mut fixture, is_stale, |fixture| {
        fixture.exchange(0, &session, 200);
    });
    fixture.log_in(PASSWORD, 500);
    // The failures of one account count once in ten seconds, unless no connection can be opened.
    fixture.iam.on(protocol.token, Answer::reset());
    fixture.log_in(PASSWORD, 500);
    fixture.iam = ScriptedUpstream::start().await;
    let is_refused =
        |line: &str| line.contains("outcome=\"circuit_open\"") && !line.ends_with(" 0");
    repeat_until(&mut fixture, is_refused, |fixture| {
        fixture.log_in(PASSWORD, 500);
    });
    let report = fixture.read_management();
    assert!(report.contains("serving_stale"), "{report}");
    let written = fixture.end();
    assert!(written.contains("too many recent calls to the IAM failed"));
    assert!(written.contains("issued with stale data"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_logout_writes_no_secret() {
    for protocol in &PROTOCOLS {
        failed_logout_writes_no_secret(protocol).await;
    }
}

async fn failed_logout_writes_no_secret(protocol: &WireProtocol) {
    let mut fixture = SecrecyFixture::over(protocol, GATEWAY, 1, &TIGHT).await;
    let session = fixture.log_in(PASSWORD, 200);
    let failing = Answer::text(503, "text/plain", UPSTREAM_TEXT);
    fixture.iam.on(protocol.logout, failing);
    fixture.send(0, &logout(&session), 500);
    fixture.iam.received(protocol.logout, 2).await;
    fixture.recovers();
    let finished = format!("outcome=\"finished\",iam=\"{}\"", protocol.adapter);
    fixture.wait_for(&format!(
        "auth_gateway_unfinished_logouts_ended_total{{{finished}}} 1"
    ));
    fixture.end();
}

fn login() -> String {
    post(
        LOGIN,
        &json!({"email": EMAIL, "password": PASSWORD}).to_string(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn timed_out_login_writes_no_secret() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &TIGHT).await;
    fixture.log_in(PASSWORD, 200);
    fixture.iam.on(GRANT, Answer::json(200, grant()).held());
    // One login is at the IAM, some wait until their deadline, and the others are refused at once.
    let mut connections = Vec::new();
    for _ in 0..12 {
        let mut connection = fixture.connect(0);
        connection.send(login());
        connections.push(connection);
    }
    let mut statuses = BTreeSet::new();
    for connection in &mut connections {
        let answer = connection.answer();
        statuses.insert(answer.status);
        fixture.record(&answer);
    }
    assert_eq!(statuses, [500, 503].into(), "too slow, and too many");
    drop(connections);
    let written = fixture.end();
    for cause in [
        "too many concurrent calls to the IAM",
        "did not respond within",
    ] {
        assert!(written.contains(cause), "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_connection_writes_no_secret() {
    const PLACES: usize = 8;
    let full = [
        ("http.workers", "1"),
        ("http.max_connections", "8"),
        ("login_limits.rate", "0"),
        ("upstream.login_deadline", "30s"),
    ];
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &full).await;
    fixture.log_in(PASSWORD, 200);
    fixture.iam.on(GRANT, Answer::json(200, grant()).held());
    // The probe tries a login as well.
    let before = fixture.iam.requests_to(GRANT).len();
    let mut connections = Vec::new();
    for number in 1..=PLACES {
        let mut connection = fixture.connect(0);
        connection.send(login());
        connections.push(connection);
        fixture.iam.received(GRANT, before + number).await;
    }
    fixture.send(0, &login(), 503);
    for _ in 0..PLACES {
        fixture.iam.release();
    }
    for connection in &mut connections {
        let answer = connection.answer();
        assert_eq!(answer.status, 200);
        let session = answer.json();
        let token = session["session_token"].as_str().expect("a token");
        fixture.record(&answer);
        fixture.add_secret("a session token", token);
    }
    drop(connections);
    let written = fixture.end();
    assert!(written.contains("\"status\":503"));
}
