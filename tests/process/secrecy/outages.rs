//! An IAM that fails or dawdles, and gateways with more to do than they can do.

use std::collections::BTreeSet;

use serde_json::json;
use test_support::endpoints::LOGIN;
use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{INTROSPECTION, TOKEN as GRANT, grant};
use test_support::watched::{EMAIL, PASSWORD, UPSTREAM_TEXT, Watched};
use test_support::wire::post;

use crate::GATEWAY;

/// What is known is stale after a second, and one call goes on at a time.
const TIGHT: [(&str, &str); 8] = [
    ("STALE_IF_ERROR", "5m"),
    ("SESSION__FRESHNESS", "1s"),
    ("PERMISSIONS__TTL", "1s"),
    ("UPSTREAM__INTROSPECTION_DEADLINE", "1s"),
    ("UPSTREAM__LOGIN_DEADLINE", "1s"),
    ("UPSTREAM__LOGIN_CONCURRENCY", "1"),
    ("LOGIN_LIMITS__RATE", "0"),
    ("HTTP__WORKERS", "1"),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_open_circuit_and_stale_knowledge_tell_nothing_of_those_who_met_them() {
    let mut scene = Watched::replicas(GATEWAY, 1, &TIGHT).await;
    let session = scene.log_in(PASSWORD, 200);
    scene.exchange(0, &session, 200);
    let failing = Answer::text(503, "text/plain", UPSTREAM_TEXT);
    scene.keycloak.on(INTROSPECTION, failing.clone());
    scene.keycloak.on(GRANT, failing);
    let stale = "auth_gateway_knowledge_total{source=\"stale\"} ";
    while scene.look_at_management().contains(&format!("{stale}0")) {
        scene.exchange(0, &session, 200);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for _ in 0..25 {
        scene.log_in(PASSWORD, 500);
    }
    let told = scene.look_at_management();
    for code in ["circuit_open", "serving_stale"] {
        assert!(told.contains(code), "{told}");
    }
    let written = scene.end();
    assert!(written.contains("failed too often of late"));
    assert!(written.contains("signed on stale knowledge"));
}

fn login() -> String {
    post(
        LOGIN,
        &json!({"email": EMAIL, "password": PASSWORD}).to_string(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_in_vain_for_a_slow_iam_leaves_nothing_behind() {
    let mut scene = Watched::replicas(GATEWAY, 1, &TIGHT).await;
    scene.log_in(PASSWORD, 200);
    scene.keycloak.on(GRANT, Answer::json(200, grant()).held());
    // One is at the IAM, some wait until it is too late, and the rest are sent away at once.
    let mut connections = Vec::new();
    for _ in 0..12 {
        let mut connection = scene.connect(0);
        connection.send(login());
        connections.push(connection);
    }
    let mut statuses = BTreeSet::new();
    for connection in &mut connections {
        let answer = connection.answer();
        statuses.insert(answer.status);
        scene.heard(&answer);
    }
    assert_eq!(statuses, [500, 503].into(), "too slow, and too many");
    drop(connections);
    let written = scene.end();
    for cause in [
        "too many calls to the IAM are under way",
        "did not answer within",
    ] {
        assert!(written.contains(cause), "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_finds_no_place_leaves_nothing_behind() {
    const PLACES: usize = 8;
    let full = [
        ("HTTP__WORKERS", "1"),
        ("HTTP__MAX_CONNECTIONS", "8"),
        ("LOGIN_LIMITS__RATE", "0"),
        ("UPSTREAM__LOGIN_DEADLINE", "30s"),
    ];
    let mut scene = Watched::replicas(GATEWAY, 1, &full).await;
    scene.log_in(PASSWORD, 200);
    scene.keycloak.on(GRANT, Answer::json(200, grant()).held());
    // The probe tries a login as well.
    let before = scene.keycloak.requests_to(GRANT).len();
    let mut connections = Vec::new();
    for number in 1..=PLACES {
        let mut connection = scene.connect(0);
        connection.send(login());
        connections.push(connection);
        scene.keycloak.received(GRANT, before + number).await;
    }
    scene.say(0, &login(), 503);
    for _ in 0..PLACES {
        scene.keycloak.release();
    }
    for connection in &mut connections {
        let answer = connection.answer();
        assert_eq!(answer.status, 200);
        let session = answer.json();
        let token = session["session_token"].as_str().expect("a token");
        scene.heard(&answer);
        scene.hides("a session token", token);
    }
    drop(connections);
    let written = scene.end();
    assert!(written.contains("\"status\":503"));
}
