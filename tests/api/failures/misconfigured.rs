//! Settings that do not fit the IAM: each has its reason in readiness, and none is a 401.

use std::time::Duration;

use test_support::scripted_upstream::keycloak::{inactive, refusal};
use test_support::scripted_upstream::{Answer, PROTOCOLS, WireProtocol};

use super::wire_fixture::WireFixture;
use super::{BROKEN, precisely};

const CREDENTIALS: &str = "Invalid client or Invalid client credentials";

/// The response of an endpoint, and the reason in readiness.
type Row = (&'static str, Answer, &'static str);

fn rows(protocol: &WireProtocol) -> Vec<Row> {
    let WireProtocol {
        discovery,
        token,
        introspection,
        ..
    } = *protocol;
    let another_issuer = (protocol.metadata)("http://another.test/realms/shop");
    let mut rows = vec![
        (discovery, another_issuer, "issuer"),
        (introspection, inactive(), "introspection"),
    ];
    rows.extend(match protocol.name {
        "keycloak" => vec![
            (
                token,
                refusal(401, "unauthorized_client", CREDENTIALS),
                "client_secret",
            ),
            (
                token,
                refusal(401, "invalid_client", CREDENTIALS),
                "unknown_client",
            ),
            (
                token,
                refusal(
                    400,
                    "unauthorized_client",
                    "Client not allowed for direct access grants",
                ),
                "password_login",
            ),
            (
                token,
                refusal(403, "access_denied", "Realm disabled"),
                "tenant",
            ),
            (token, refusal(404, "Realm does not exist", ""), "tenant"),
            (
                token,
                refusal(403, "invalid_request", "HTTPS required"),
                "tls",
            ),
            (
                discovery,
                refusal(404, "Realm does not exist", ""),
                "tenant",
            ),
            (
                discovery,
                refusal(403, "invalid_request", "HTTPS required"),
                "tls",
            ),
        ],
        "glewlwyd" => vec![
            (token, Answer::empty(400), "other"),
            (token, Answer::empty(404), "other"),
            (introspection, Answer::empty(401), "client_secret"),
            (discovery, Answer::empty(404), "other"),
        ],
        _ => vec![
            (token, refusal(401, "invalid_client", ""), "client_secret"),
            (
                token,
                refusal(400, "unauthorized_client", ""),
                "password_login",
            ),
            (
                token,
                refusal(400, "unsupported_grant_type", ""),
                "password_login",
            ),
            (token, refusal(400, "invalid_scope", ""), "other"),
            (token, Answer::html(404), "other"),
            (introspection, Answer::empty(403), "client_secret"),
            (discovery, Answer::html(404), "other"),
        ],
    });
    rows
}

#[tokio::test]
async fn gateway_misconfigured_from_the_start_is_not_ready_and_reports_the_reason() {
    for protocol in &PROTOCOLS {
        for (path, answer, code) in rows(protocol) {
            for precise in [false, true] {
                let fixture = WireFixture::new(protocol, &[precisely(precise)]).await;
                fixture.iam.on(path, answer.clone());
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
}

#[tokio::test]
async fn gateway_misconfigured_later_stays_ready_as_degraded() {
    for protocol in &PROTOCOLS {
        let fixture = WireFixture::new(protocol, &[]).await;
        assert_eq!(fixture.log_in().await.status, 200);
        for (path, answer, code) in rows(protocol) {
            if path == protocol.token {
                BROKEN.is_in(&fixture.call_with_fault(path, &answer).await, false, code);
                fixture.is_ready("degraded", &[code]).await;
            }
        }
    }
}

/// Responses of introspection and logout.
fn later_rows(protocol: &WireProtocol) -> Vec<(Answer, &'static str)> {
    match protocol.name {
        "keycloak" => vec![
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
        ],
        _ => vec![
            (Answer::empty(401), "client_secret"),
            (refusal(401, "invalid_client", ""), "client_secret"),
            (Answer::html(404), "other"),
        ],
    }
}

#[tokio::test]
async fn later_misconfiguration_ends_no_session() {
    for protocol in &PROTOCOLS {
        let fixture = WireFixture::new(protocol, &[]).await;
        for (answer, code) in later_rows(protocol) {
            fixture.recovers();
            let session = fixture.stale_session().await;
            for path in [protocol.introspection, protocol.logout] {
                fixture.iam.on(path, answer.clone());
            }
            BROKEN.is_in(&fixture.exchange(&session).await, false, code);
            fixture.is_ready("degraded", &[code]).await;
            fixture.recovers();
            // The fault of the session is held until then.
            fixture.clock.advance(Duration::from_secs(1));
            assert_eq!(fixture.exchange(&session).await.status, 200, "after {code}");
            fixture.iam.on(protocol.logout, answer);
            let response = fixture.gateway.log_out(&session).await;
            BROKEN.is_in(&response, false, code);
            fixture.is_ready("degraded", &[code]).await;
        }
    }
}

#[tokio::test]
async fn session_that_introspection_does_not_recognise_is_ended_and_not_returned() {
    for protocol in &PROTOCOLS {
        let fixture = WireFixture::new(protocol, &[]).await;
        fixture.iam.on(protocol.introspection, inactive());
        BROKEN.is_in(&fixture.log_in().await, false, "introspection");
        // The client does not wait for the clean-up.
        fixture.iam.received(protocol.logout, 1).await;
    }
}
