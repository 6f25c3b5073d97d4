//! Errors and debug output contain nothing of requests and responses.

use iam_adapters::IamError;
use iam_adapters::settings::AdapterSettings as _;
use serde_json::json;
use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::refusal;

use super::{
    ACCESS_TOKEN, DISCOVERY, INTROSPECTION, PASSWORD, REFRESH_TOKEN, REVOCATION, SECRET, TOKEN,
    adapter, adapter_with, healthy, inactive, log_in, session, settings_with,
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
        let other_types = json!({"issuer": echo, "active": echo, "access_token": 7});
        for answer in [
            refusal(status, "canary", &echo),
            refusal(status, "invalid_client", &echo),
            Answer::json(status, other_types),
            Answer::text(status, "text/plain", &echo),
        ] {
            for path in [DISCOVERY, TOKEN, INTROSPECTION, REVOCATION] {
                let errors = errors(path, &answer).await;
                let is_success = path == REVOCATION && answer.is_json_object(200);
                assert_eq!(errors.is_empty(), is_success, "{path} {answer:?}");
                for error in errors {
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
    let shown = format!("{settings:?} {:?}", settings.problems("iam.oauth2", true));
    assert!(!shown.contains("canary"), "{shown}");
}
