//! Settings that do not fit Keycloak: each has its reason in readiness, and none is a 401.

use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, LOGOUT, TOKEN, discovery, inactive, refusal,
};

use super::keycloak_fixture::KeycloakFixture;
use super::{BROKEN, precisely};

const CREDENTIALS: &str = "Invalid client or Invalid client credentials";

/// The path, its response, and the reason in readiness.
fn rows() -> Vec<(&'static str, Answer, &'static str)> {
    vec![
        (
            TOKEN,
            refusal(401, "unauthorized_client", CREDENTIALS),
            "client_secret",
        ),
        (
            TOKEN,
            refusal(401, "invalid_client", CREDENTIALS),
            "unknown_client",
        ),
        (
            TOKEN,
            refusal(
                400,
                "unauthorized_client",
                "Client not allowed for direct access grants",
            ),
            "password_login",
        ),
        (
            TOKEN,
            refusal(403, "access_denied", "Realm disabled"),
            "tenant",
        ),
        (TOKEN, refusal(404, "Realm does not exist", ""), "tenant"),
        (
            TOKEN,
            refusal(403, "invalid_request", "HTTPS required"),
            "tls",
        ),
        (
            DISCOVERY,
            refusal(404, "Realm does not exist", ""),
            "tenant",
        ),
        (
            DISCOVERY,
            refusal(403, "invalid_request", "HTTPS required"),
            "tls",
        ),
        (
            DISCOVERY,
            discovery("http://keycloak.test/realms/shop"),
            "issuer",
        ),
        (INTROSPECTION, inactive(), "introspection"),
    ]
}

#[tokio::test]
async fn gateway_misconfigured_from_the_start_is_not_ready_and_reports_the_reason() {
    for (path, answer, code) in rows() {
        for precise in [false, true] {
            let fixture = KeycloakFixture::new(&[precisely(precise)]).await;
            fixture.keycloak.on(path, answer.clone());
            BROKEN.is_in(&fixture.log_in().await, precise, code);
            // Only requests show that introspection works again.
            let status = match code {
                "introspection" => "degraded",
                _ => "not_ready",
            };
            fixture.is_ready(status, &[code]).await;
            fixture.recovers();
            assert_eq!(fixture.log_in().await.status, 200, "after {code}");
            fixture.is_ready("ready", &[]).await;
        }
    }
}

#[tokio::test]
async fn gateway_misconfigured_later_stays_ready_as_degraded() {
    let fixture = KeycloakFixture::new(&[]).await;
    assert_eq!(fixture.log_in().await.status, 200);
    for (path, answer, code) in rows() {
        if path == TOKEN {
            BROKEN.is_in(&fixture.call_with_fault(path, &answer).await, false, code);
            fixture.is_ready("degraded", &[code]).await;
        }
    }
}

#[tokio::test]
async fn later_misconfiguration_ends_no_session() {
    let fixture = KeycloakFixture::new(&[]).await;
    for (answer, code) in [
        (
            refusal(401, "invalid_client", "Client authentication failed."),
            "client_secret",
        ),
        (
            refusal(401, "invalid_request", "Authentication failed."),
            "client_secret",
        ),
        (
            refusal(401, "invalid_client", CREDENTIALS),
            "unknown_client",
        ),
        (refusal(404, "Realm does not exist", ""), "tenant"),
        (refusal(403, "invalid_request", "HTTPS required"), "tls"),
    ] {
        fixture.recovers();
        let session = fixture.stale_session().await;
        for path in [INTROSPECTION, LOGOUT] {
            fixture.keycloak.on(path, answer.clone());
        }
        BROKEN.is_in(&fixture.exchange(&session).await, false, code);
        fixture.is_ready("degraded", &[code]).await;
        fixture.recovers();
        assert_eq!(fixture.exchange(&session).await.status, 200, "after {code}");
        fixture.keycloak.on(LOGOUT, answer);
        let response = fixture.gateway.log_out(&session).await;
        BROKEN.is_in(&response, false, code);
        fixture.is_ready("degraded", &[code]).await;
    }
}

#[tokio::test]
async fn session_that_introspection_does_not_recognise_is_ended_and_not_returned() {
    let fixture = KeycloakFixture::new(&[]).await;
    fixture.keycloak.on(INTROSPECTION, inactive());
    BROKEN.is_in(&fixture.log_in().await, false, "introspection");
    // The client does not wait for the clean-up.
    fixture.keycloak.received(LOGOUT, 1).await;
}
