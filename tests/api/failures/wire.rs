//! Every fault of a Keycloak, or of a proxy in front of it, on the wire.

use serde_json::json;
use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, TOKEN, active, grant, inactive, jwt, refusal,
};

use super::keycloak_fixture::{KeycloakFixture, PATHS};
use super::{BROKEN, Expected, UNAVAILABLE, precisely, throttled};

/// 10 MiB.
const HUGE: usize = 10 << 20;

/// The response of Keycloak, the response to the client, and the reason in readiness.
type Row = (&'static str, Answer, Expected, &'static str);

fn rows() -> Vec<Row> {
    let json = |status| Answer::json(status, json!({ "error": "unknown_error" }));
    let throttling = json(429).with("Retry-After", "7");
    vec![
        ("reset", Answer::reset(), UNAVAILABLE, "unreachable"),
        ("500", json(500), UNAVAILABLE, "failed"),
        ("502, HTML", Answer::html(502), UNAVAILABLE, "failed"),
        ("503, empty", Answer::empty(503), UNAVAILABLE, "failed"),
        (
            "500, invalid_grant",
            refusal(500, "invalid_grant", "Invalid user credentials"),
            UNAVAILABLE,
            "failed",
        ),
        ("429", throttling, throttled(7), "throttled"),
        ("429, no pause", json(429), throttled(5), "throttled"),
        ("not HTTP", Answer::not_http(), BROKEN, "unreadable"),
        ("200, HTML", Answer::html(200), BROKEN, "unreadable"),
        ("401, HTML", Answer::html(401), BROKEN, "unreadable"),
        ("400, HTML", Answer::html(400), BROKEN, "unreadable"),
        ("403, empty", Answer::empty(403), BROKEN, "unreadable"),
        ("404", Answer::html(404), BROKEN, "tenant"),
        ("400, another error", json(400), BROKEN, "unreadable"),
        (
            "200, []",
            Answer::json(200, json!([])),
            BROKEN,
            "unreadable",
        ),
        (
            "200, 10 MiB",
            Answer::padded(200, HUGE),
            BROKEN,
            "unreadable",
        ),
        (
            "200, 10 MiB in chunks",
            Answer::padded(200, HUGE).chunked(),
            BROKEN,
            "unreadable",
        ),
        (
            "400, 10 MiB",
            Answer::padded(400, HUGE),
            BROKEN,
            "unreadable",
        ),
        ("302", Answer::redirect(302, "/elsewhere"), BROKEN, "other"),
    ]
}

#[tokio::test]
async fn wire_fault_is_never_a_401() {
    for precise in [false, true] {
        for path in PATHS {
            // For each path, because the first probe is unanswered for a minute only.
            let fixture = KeycloakFixture::new(&[precisely(precise)]).await;
            for (name, answer, expected, code) in rows() {
                let why = format!("{name} from {path}");
                let response = fixture.call_with_fault(path, &answer).await;
                expected.is_in(&response, precise, &why);
                fixture.is_ready("degraded", &[code]).await;
                if path == TOKEN {
                    fixture.recovers();
                    assert_eq!(fixture.log_in().await.status, 200, "after {why}");
                    fixture.is_ready("ready", &[]).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn incomplete_success_is_a_fault() {
    for precise in [false, true] {
        let fixture = KeycloakFixture::new(&[precisely(precise)]).await;
        for (path, whole) in [(TOKEN, grant()), (INTROSPECTION, active())] {
            let whole = Answer::json(200, whole);
            for (answer, expected, code) in [
                (whole.clone().truncated(), BROKEN, "unreadable"),
                (whole.clone().cut_short(), UNAVAILABLE, "unreachable"),
            ] {
                let response = fixture.call_with_fault(path, &answer).await;
                expected.is_in(&response, precise, path);
                fixture.is_ready("degraded", &[code]).await;
            }
        }
    }
}

#[tokio::test]
async fn success_with_unexpected_content_is_a_fault() {
    let fixture = KeycloakFixture::new(&[]).await;
    let changed = |mut whole: serde_json::Value, member: &str, value| {
        whole[member] = value;
        Answer::json(200, whole)
    };
    let other = jwt(&json!({"sub": "x", "sid": "y", "azp": "another", "typ": "Refresh"}));
    for (path, answer) in [
        (INTROSPECTION, changed(active(), "active", json!("true"))),
        (INTROSPECTION, changed(active(), "active", json!(1))),
        (INTROSPECTION, changed(active(), "active", json!(null))),
        (INTROSPECTION, changed(active(), "sub", json!("another"))),
        (INTROSPECTION, changed(active(), "sid", json!("another"))),
        (INTROSPECTION, changed(active(), "azp", json!("another"))),
        (INTROSPECTION, Answer::json(200, json!({}))),
        (TOKEN, changed(grant(), "refresh_token", json!("opaque"))),
        (TOKEN, changed(grant(), "refresh_token", json!(other))),
        (TOKEN, changed(grant(), "session_state", json!("another"))),
        (TOKEN, changed(grant(), "refresh_expires_in", json!("1800"))),
    ] {
        let response = fixture.call_with_fault(path, &answer).await;
        BROKEN.is_in(&response, false, &format!("{answer:?}"));
        fixture.is_ready("degraded", &["unreadable"]).await;
    }
}

#[tokio::test]
async fn unavailable_discovery_document_fails_a_login() {
    for (name, answer, expected, code) in rows() {
        // Discovery is cached, so each case needs a new gateway.
        let fixture = KeycloakFixture::new(&[]).await;
        fixture.keycloak.on(DISCOVERY, answer);
        expected.is_in(&fixture.log_in().await, false, name);
        let misconfigured = ["tenant", "other"].contains(&code);
        let status = if misconfigured {
            "not_ready"
        } else {
            "degraded"
        };
        fixture.is_ready(status, &[code]).await;
        assert!(fixture.keycloak.requests_to(TOKEN).is_empty(), "{name}");
    }
}

#[tokio::test]
async fn only_a_refusal_of_keycloak_is_a_401() {
    let fixture = KeycloakFixture::new(&[]).await;
    for (status, description) in [
        (400, "Invalid user credentials"),
        (401, "Invalid user credentials"),
        (400, "Account disabled"),
        (400, "Account is not fully set up"),
        (400, "an unknown description"),
    ] {
        let no = refusal(status, "invalid_grant", description);
        let response = fixture.call_with_fault(TOKEN, &no).await;
        response.is_error(401, "invalid_grant");
    }
    let response = fixture.call_with_fault(INTROSPECTION, &inactive()).await;
    response.is_error(401, "invalid_grant");
    fixture.is_ready("ready", &[]).await;
}
