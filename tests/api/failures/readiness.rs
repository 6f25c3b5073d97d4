//! What the probe reports before any request.

use serde_json::json;
use test_support::gateway::manual_clock;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, KEYCLOAK, discovery, inactive, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::wire_fixture::gateway;

/// A Keycloak that works for a probe: the probe's made-up token is inactive.
async fn healthy() -> ScriptedUpstream {
    let keycloak = ScriptedUpstream::keycloak().await;
    keycloak.on(INTROSPECTION, inactive());
    keycloak
}

#[tokio::test]
async fn probe_reports_why_the_iam_is_unavailable() {
    for (path, answer, status, code) in [
        (DISCOVERY, Answer::reset(), "degraded", "unreachable"),
        (DISCOVERY, Answer::empty(503), "degraded", "failed"),
        (DISCOVERY, Answer::html(200), "degraded", "unreadable"),
        (DISCOVERY, Answer::empty(429), "degraded", "throttled"),
        (DISCOVERY, Answer::html(404), "not_ready", "tenant"),
        (
            DISCOVERY,
            discovery("http://keycloak.test/realms/shop"),
            "not_ready",
            "issuer",
        ),
        (
            DISCOVERY,
            refusal(403, "invalid_request", "HTTPS required"),
            "not_ready",
            "tls",
        ),
        (
            INTROSPECTION,
            refusal(401, "invalid_client", "Client authentication failed."),
            "not_ready",
            "client_secret",
        ),
        (
            INTROSPECTION,
            refusal(401, "invalid_client", "Invalid client credentials"),
            "not_ready",
            "unknown_client",
        ),
        (
            INTROSPECTION,
            Answer::json(200, json!({ "active": true })),
            "degraded",
            "unreadable",
        ),
    ] {
        let keycloak = healthy().await;
        keycloak.on(path, answer);
        let gateway = gateway(&KEYCLOAK, &keycloak.url(), &manual_clock(), &[]);
        gateway.wait_for_readiness(status, &[code]).await;
    }
}

#[tokio::test]
async fn probe_without_an_answer_in_time_is_reported_as_timed_out() {
    let keycloak = healthy().await;
    keycloak.on(DISCOVERY, Answer::hanging());
    let short = [("upstream.probe_deadline", "200ms")];
    let gateway = gateway(&KEYCLOAK, &keycloak.url(), &manual_clock(), &short);
    gateway.wait_for_readiness("degraded", &["timed_out"]).await;
}

#[tokio::test]
async fn replica_is_not_ready_while_the_iam_hangs_at_the_first_probe() {
    let keycloak = healthy().await;
    keycloak.on(DISCOVERY, Answer::hanging());
    let long_deadline = [("upstream.probe_deadline", "30s")];
    let gateway = gateway(&KEYCLOAK, &keycloak.url(), &manual_clock(), &long_deadline);
    gateway
        .ready()
        .await
        .is_readiness("not_ready", &["iam_not_probed"]);
    keycloak.received(DISCOVERY, 1).await;
    gateway
        .ready()
        .await
        .is_readiness("not_ready", &["iam_not_probed"]);
}

#[tokio::test]
async fn readiness_follows_the_iam_without_any_request() {
    let keycloak = healthy().await;
    let often = [("upstream.probe_interval", "20ms")];
    let gateway = gateway(&KEYCLOAK, &keycloak.url(), &manual_clock(), &often);
    for _ in 0..2 {
        gateway.wait_for_readiness("ready", &[]).await;
        keycloak.on(DISCOVERY, Answer::reset());
        gateway
            .wait_for_readiness("degraded", &["unreachable"])
            .await;
        keycloak.in_good_health().on(INTROSPECTION, inactive());
    }
}
