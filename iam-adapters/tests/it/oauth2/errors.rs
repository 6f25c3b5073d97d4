//! Failures of the server in every operation: each is the right fault, and contains no secret.

use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{IamAdapter, IamError};
use serde_json::json;
use test_support::scripted_upstream::{Answer, RefusingPort, ScriptedUpstream};

use super::{
    ACCESS_TOKEN, DISCOVERY, INTROSPECTION, PASSWORD, REFRESH_TOKEN, REVOCATION, SECRET, TOKEN,
    adapter, adapter_with, healthy, inactive, kind, log_in, session, settings_with,
};

/// The errors of all operations that call this path, with this response.
async fn errors(path: &str, answer: &Answer) -> Vec<IamError> {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    upstream.on(path, answer.clone());
    let mut errors = Vec::new();
    if path == DISCOVERY {
        let fresh = adapter(&upstream);
        let login = log_in(&fresh).await;
        errors.extend(login.err());
        errors.extend(adapter(&upstream).introspect(&session).await.err());
        errors.extend(adapter(&upstream).end_session(&session).await.err());
    }
    if path == TOKEN || path == INTROSPECTION {
        let login = log_in(&oauth2).await;
        errors.extend(login.err());
    }
    if path == INTROSPECTION {
        errors.extend(oauth2.introspect(&session).await.err());
    }
    if path == REVOCATION {
        errors.extend(oauth2.end_session(&session).await.err());
    } else {
        if path == TOKEN {
            upstream.on(INTROSPECTION, inactive());
        }
        errors.extend(adapter(&upstream).probe().await.err());
    }
    errors
}

#[tokio::test]
async fn failure_of_the_server_is_the_right_fault_in_every_operation() {
    for (answer, expected) in [
        (Answer::html(500), "failed"),
        (Answer::empty(503), "failed"),
        (
            Answer::json(500, json!({"error": "invalid_grant"})),
            "failed",
        ),
        (Answer::empty(429), "throttled"),
        (Answer::html(200), "unreadable"),
        (Answer::html(403), "unreadable"),
        (Answer::padded(200, 10 * 1024 * 1024), "unreadable"),
        (
            Answer::padded(200, 10 * 1024 * 1024).chunked(),
            "unreadable",
        ),
        (Answer::not_http(), "unreadable"),
        (Answer::reset(), "unreachable"),
        (Answer::json(200, json!({})).truncated(), "unreadable"),
        (Answer::json(200, json!({})).cut_short(), "unreachable"),
        (
            Answer::redirect(307, "http://other.invalid/"),
            "misconfigured",
        ),
        (Answer::json(418, json!({"error": "teapot"})), "unreadable"),
    ] {
        for (path, calls) in [
            (DISCOVERY, 4),
            (TOKEN, 1),
            (INTROSPECTION, 3),
            (REVOCATION, 1),
        ] {
            let errors = errors(path, &answer).await;
            assert!(errors.len() >= calls, "{path} {answer:?}: {errors:?}");
            for error in errors {
                assert_eq!(error.kind(), expected, "{path} {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn closed_port_is_unreachable() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    drop(upstream);
    assert_eq!(kind(&oauth2.introspect(&session).await), "unreachable");
    let closed = RefusingPort::start();
    let upstream: ScriptedUpstream = healthy().await;
    let oauth2 = adapter_with(&upstream, &json!({"issuer": closed.url()}));
    let login = log_in(&oauth2).await;
    assert_eq!(kind(&login), "unreachable");
}

#[tokio::test]
async fn errors_contain_nothing_of_requests_and_responses() {
    let secrets = [
        PASSWORD,
        SECRET,
        ACCESS_TOKEN,
        REFRESH_TOKEN,
        "alice",
        "canary",
    ];
    let echo = secrets.join(" ");
    for status in [200, 400, 401, 403, 404, 500] {
        for answer in [
            Answer::json(
                status,
                json!({"error": "canary", "error_description": echo}),
            ),
            Answer::json(
                status,
                json!({"error": "invalid_client", "error_description": echo}),
            ),
            Answer::json(
                status,
                json!({"issuer": echo, "active": echo, "access_token": 7}),
            ),
            Answer::text(status, "text/plain", &echo),
        ] {
            for path in [DISCOVERY, TOKEN, INTROSPECTION, REVOCATION] {
                for error in errors(path, &answer).await {
                    let shown = format!("{error} {error:?}").replace('\\', "");
                    // The code of an error is shown; it is no free text.
                    let shown = shown.replace("error canary", "");
                    let shown = shown.replace(r#"refused_error = "canary""#, "");
                    for secret in secrets {
                        assert!(!shown.contains(secret), "{secret} in {shown}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn debug_output_of_adapter_and_settings_has_no_secret() {
    let upstream = healthy().await;
    for method in ["client_secret_basic", "client_secret_post"] {
        let changes = json!({
            "client_auth_method": method,
            "token_endpoint": "http://localhost:1/token",
        });
        let settings = settings_with(&upstream, &changes);
        let shown = format!("{:?} {settings:?}", adapter_with(&upstream, &changes));
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let changes = json!({
        "issuer": "https://canary:canary@x.test/?canary",
        "token_endpoint": "https://canary:canary@x.test/?canary#canary",
        "client_secret": "canary",
    });
    let settings = settings_with(&upstream, &changes);
    let shown = format!("{settings:?} {:?}", settings.problems(true));
    assert!(!shown.contains("canary"), "{shown}");
}
