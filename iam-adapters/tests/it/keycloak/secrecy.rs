//! Nothing that is written about a call holds what was sent in it, or what came back.

use iam_adapters::{IamAdapter, IamError};
use serde_json::json;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, LOGOUT, TOKEN, discovery, refresh_token, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{PASSWORD, SECRET, adapter, adapter_with, client, credentials, session, settings_with};

fn holds_nothing(shown: &str) {
    let token = refresh_token("auth-gateway");
    for secret in [PASSWORD, SECRET, &token, "alice", "canary"] {
        assert!(!shown.contains(secret), "{secret:?} in {shown}");
    }
}

#[tokio::test]
async fn no_error_repeats_what_the_iam_wrote_or_was_sent() {
    let echo = format!(
        "canary {PASSWORD} {SECRET} {}",
        refresh_token("auth-gateway")
    );
    for status in [200, 400, 401, 403, 404, 500] {
        for answer in [
            refusal(status, "canary alice-pass", &echo),
            refusal(status, "invalid_request", &echo),
            refusal(status, "unauthorized_client", &echo),
            refusal(status, "unheard_of", &echo),
            Answer::text(status, "text/html", &echo),
        ] {
            let upstream = ScriptedUpstream::keycloak().await;
            let keycloak = adapter(&upstream.url());
            upstream
                .on(TOKEN, answer.clone())
                .on(INTROSPECTION, answer.clone())
                .on(LOGOUT, answer.clone());
            let login = keycloak
                .authenticate(&credentials(PASSWORD), &client())
                .await;
            let errors: [Option<IamError>; 3] = [
                login.err(),
                keycloak.introspect(&session()).await.err(),
                keycloak.end_session(&session()).await.err(),
            ];
            for error in errors {
                let error = error.expect("an error");
                holds_nothing(&format!("{error} {error:?}"));
            }
        }
    }
}

#[tokio::test]
async fn the_issuer_that_somebody_else_names_is_not_repeated() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(DISCOVERY, discovery("http://canary.test/"));
    let error = adapter(&upstream.url())
        .probe()
        .await
        .expect_err("another issuer");
    holds_nothing(&format!("{error} {error:?}"));
}

#[tokio::test]
async fn an_unreachable_iam_is_told_without_its_address() {
    let url = "http://canary.invalid:1/alice";
    let error = adapter(url).probe().await.expect_err("no such host");
    assert_eq!(error.kind(), "unreachable");
    holds_nothing(&format!("{error} {error:?}"));
}

#[test]
fn neither_adapter_nor_settings_show_the_secret() {
    let changes = json!({"client_secret": "canary + secret"});
    let url = "https://login.example.test";
    holds_nothing(&format!("{:?}", settings_with(url, &changes)));
    let shown = format!("{:?}", adapter_with(url, &changes));
    holds_nothing(&shown);
    let with_credentials = settings_with(
        "https://alice:canary@login.example.test/?canary#canary",
        &json!({}),
    );
    holds_nothing(&format!(
        "{with_credentials:?} {:?}",
        with_credentials.problems(true)
    ));
}
