//! Settings that do not fit the Keycloak, each told apart in readiness and never a user's 401.

use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, LOGOUT, TOKEN, discovery, inactive, refusal,
};

use super::wired::Wired;
use super::{BROKEN, precisely};

const CREDENTIALS: &str = "Invalid client or Invalid client credentials";

/// What answers, how, and what is wrong then.
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
async fn a_gateway_that_never_fitted_its_iam_gets_no_traffic_and_says_why() {
    for (path, answer, code) in rows() {
        for precise in [false, true] {
            let scene = Wired::new(&[precisely(precise)]).await;
            scene.keycloak.on(path, answer.clone());
            BROKEN.is_in(&scene.log_in().await, precise, code);
            // Nothing but traffic finds out that introspection is right again.
            let status = match code {
                "introspection" => "degraded",
                _ => "not_ready",
            };
            scene.is_ready(status, Some(code)).await;
            scene.recovers();
            assert_eq!(scene.log_in().await.status, 200, "after {code}");
            scene.is_ready("ready", None).await;
        }
    }
}

#[tokio::test]
async fn a_gateway_that_fits_its_iam_no_longer_stays_in_service() {
    let scene = Wired::new(&[]).await;
    assert_eq!(scene.log_in().await.status, 200);
    for (path, answer, code) in rows() {
        if path == TOKEN {
            BROKEN.is_in(&scene.meets(path, &answer).await, false, code);
            scene.is_ready("degraded", Some(code)).await;
        }
    }
}

#[tokio::test]
async fn a_session_is_not_lost_to_settings_that_stopped_fitting() {
    let scene = Wired::new(&[]).await;
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
        scene.recovers();
        let session = scene.stale_session().await;
        for path in [INTROSPECTION, LOGOUT] {
            scene.keycloak.on(path, answer.clone());
        }
        BROKEN.is_in(&scene.exchange(&session).await, false, code);
        scene.is_ready("degraded", Some(code)).await;
        scene.recovers();
        assert_eq!(scene.exchange(&session).await.status, 200, "after {code}");
        scene.keycloak.on(LOGOUT, answer);
        let response = scene.gateway.log_out(&session).await;
        BROKEN.is_in(&response, false, code);
        scene.is_ready("degraded", Some(code)).await;
    }
}

#[tokio::test]
async fn a_session_that_introspection_does_not_recognise_is_ended_and_not_handed_out() {
    let scene = Wired::new(&[]).await;
    scene.keycloak.on(INTROSPECTION, inactive());
    BROKEN.is_in(&scene.log_in().await, false, "introspection");
    // The client does not wait for it.
    scene.keycloak.received(LOGOUT, 1).await;
}
