//! A fault of each kind of an IAM, or of a proxy in front of it, on the wire. `iam-adapters` tests every fault.

use serde_json::json;
use test_support::scripted_upstream::keycloak::refusal;
use test_support::scripted_upstream::{Answer, PROTOCOLS, WireProtocol};

use super::wire_fixture::WireFixture;
use super::{BROKEN, Expected, UNAVAILABLE, throttled};

/// The response of the IAM, the response to the client, and the reason in readiness.
type Row = (&'static str, Answer, Expected, &'static str);

fn rows(protocol: &WireProtocol, path: &str) -> Vec<Row> {
    // No server but Keycloak has tenants.
    let not_found = match protocol.name {
        "keycloak" => "tenant",
        _ => "other",
    };
    // Many servers reject a client like that. Glewlwyd's token endpoint refuses credentials.
    let forbidden = match protocol.name {
        "django-oauth-toolkit" => "client_secret",
        "glewlwyd" if path != protocol.token => "client_secret",
        _ => "unreadable",
    };
    let throttling = Answer::html(429);
    vec![
        ("reset", Answer::reset(), UNAVAILABLE, "unreachable"),
        (
            "500, invalid_grant",
            refusal(500, "invalid_grant", "Invalid user credentials"),
            UNAVAILABLE,
            "failed",
        ),
        (
            "429",
            throttling.clone().with("Retry-After", "7"),
            throttled(7),
            "throttled",
        ),
        ("429, no pause", throttling, throttled(5), "throttled"),
        ("200, HTML", Answer::html(200), BROKEN, "unreadable"),
        (
            "200, []",
            Answer::json(200, json!([])),
            BROKEN,
            "unreadable",
        ),
        ("403, empty", Answer::empty(403), BROKEN, forbidden),
        ("404", Answer::html(404), BROKEN, not_found),
        ("302", Answer::redirect(302, "/elsewhere"), BROKEN, "other"),
    ]
}

#[tokio::test]
async fn wire_fault_is_never_a_401() {
    for protocol in &PROTOCOLS {
        for path in protocol.endpoints() {
            // For each path, because the first probe is unanswered for a minute only.
            let fixture = WireFixture::new(protocol, &[]).await;
            for (name, answer, expected, code) in rows(protocol, path) {
                let why = format!("{name} from {path}");
                let response = fixture.call_with_fault(path, &answer).await;
                expected.is_in(&response, false, &why);
                fixture.is_ready("degraded", &[code]).await;
                if path == protocol.token {
                    fixture.recovers();
                    assert_eq!(fixture.log_in().await.status, 200, "after {why}");
                    fixture.is_ready("ready", &[]).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn only_a_refusal_of_the_iam_is_a_401() {
    for protocol in &PROTOCOLS {
        let fixture = WireFixture::new(protocol, &[]).await;
        for refusal in (protocol.refusals)() {
            fixture.recovers();
            // At Glewlwyd, the adapter then introspects an invalid token.
            let inactive = (protocol.inactive)();
            fixture.iam.on(protocol.introspection, inactive);
            fixture.iam.on(protocol.token, refusal);
            let response = fixture.log_in().await;
            response.is_error(401, "invalid_grant");
        }
        let path = protocol.introspection;
        let response = fixture.call_with_fault(path, &(protocol.inactive)()).await;
        response.is_error(401, "invalid_grant");
        fixture.is_ready("ready", &[]).await;
    }
}
