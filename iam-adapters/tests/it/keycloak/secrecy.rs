//! Errors and debug output contain nothing of requests and responses.

use iam_adapters::IamError;
use iam_adapters::settings::AdapterSettings as _;
use serde_json::json;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, LOGOUT, TOKEN, discovery, refresh_token, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{PASSWORD, SECRET, adapter, adapter_with, log_in, session, settings_with};

fn assert_no_secret(shown: &str) {
    let token = refresh_token("auth-gateway");
    for secret in [PASSWORD, SECRET, &token, "alice", "canary"] {
        assert!(!shown.contains(secret), "{secret:?} in {shown}");
    }
}

#[tokio::test]
async fn errors_contain_nothing_of_requests_and_responses() {
    let echo = format!(
        "canary {PASSWORD} {SECRET} {}",
        refresh_token("auth-gateway")
    );
    for status in [200, 400, 401, 403, 404, 500] {
        for answer in [
            refusal(status, "canary alice-pass", &echo),
            refusal(status, "invalid_request", &echo),
            refusal(status, "unauthorized_client", &echo),
            refusal(status, "unknown_code", &echo),
            Answer::text(status, "text/html", &echo),
        ] {
            let upstream = ScriptedUpstream::keycloak().await;
            let keycloak = adapter(&upstream.url());
            upstream
                .on(TOKEN, answer.clone())
                .on(INTROSPECTION, answer.clone())
                .on(LOGOUT, answer.clone());
            let login = log_in(&keycloak).await;
            let errors: [Option<IamError>; 3] = [
                login.err(),
                keycloak.introspect(&session()).await.err(),
                keycloak.end_session(&session()).await.err(),
            ];
            for error in errors {
                let error = error.expect("an error");
                assert_no_secret(&format!("{error} {error:?}"));
            }
        }
    }
}

#[tokio::test]
async fn wrong_issuer_is_repeated_without_credentials_and_only_if_it_is_an_issuer() {
    let upstream = ScriptedUpstream::keycloak().await;
    let long = format!("http://found.test/{}", "x".repeat(200));
    for (issuer, found) in [
        (
            "http://alice:canary@found.test/realms/shop",
            "names the issuer http://found.test/realms/shop, not ",
        ),
        (
            "http://found.test/?canary",
            "names something that is no issuer, not ",
        ),
        ("canary", "names something that is no issuer, not "),
        (&long, "names something that is no issuer, not "),
    ] {
        upstream.on(DISCOVERY, discovery(issuer));
        let error = adapter(&upstream.url()).probe().await;
        let error = error.expect_err("another issuer");
        assert!(error.to_string().contains(found), "{error}");
        assert_no_secret(&format!("{error} {error:?}"));
    }
}

#[tokio::test]
async fn error_of_an_unreachable_iam_has_no_address() {
    let url = "http://canary.invalid:1/alice";
    let error = adapter(url).probe().await.expect_err("no such host");
    assert_eq!(error.kind(), "unreachable");
    assert_no_secret(&format!("{error} {error:?}"));
}

#[test]
fn debug_output_of_adapter_and_settings_has_no_secret() {
    let changes = json!({"client_secret": "canary + secret"});
    let url = "https://login.example.test";
    assert_no_secret(&format!("{:?}", settings_with(url, &changes)));
    let shown = format!("{:?}", adapter_with(url, &changes));
    assert_no_secret(&shown);
    let with_credentials = settings_with(
        "https://alice:canary@login.example.test/?canary#canary",
        &json!({}),
    );
    assert_no_secret(&format!(
        "{with_credentials:?} {:?}",
        with_credentials.problems("iam.keycloak", true)
    ));
}
