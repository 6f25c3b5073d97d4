use config::ConfigError;
use serde_json::{Value, json};
use test_support::json::with;

use super::*;

fn read(changes: &Value) -> Result<OAuth2Settings, ConfigError> {
    let settings = json!({
        "issuer": "https://login.example.test/oidc",
        "client_id": "auth-gateway",
        "client_secret": "0123456789abcdef",
    });
    OAuth2Settings::read(serde_json::from_value(with(settings, changes)).expect("a section"))
}

fn settings(changes: &Value) -> OAuth2Settings {
    read(changes).expect("settings")
}

#[test]
fn valid_settings_have_no_problem_in_production() {
    for changes in [
        json!({}),
        json!({"preset": "glewlwyd", "scope": "openid read"}),
        json!({"revocation_endpoint": "none", "token_parameters": "audience=x&realm=y"}),
        json!({"groups_claim": "groups", "groups_delimiter": " "}),
        json!({"preset": "django-oauth-toolkit", "client_auth_method": "client_secret_post"}),
    ] {
        assert_eq!(settings(&changes).problems("iam.oauth2", true), [""; 0]);
    }
}

#[test]
fn misspelt_keys_and_values_are_refused() {
    for changes in [
        json!({"client_secrets": "x"}),
        json!({"preset": "glewlwid"}),
        json!({"introspect": "id_token"}),
        json!({"client_auth_method": "none"}),
        json!({"revocation_endpoint": "None"}),
        json!({"issuer": null}),
        json!({"client_id": null}),
    ] {
        assert!(read(&changes).is_err(), "{changes}");
    }
}

#[test]
fn problem_names_its_key_without_its_value() {
    let issuer =
        ".issuer: must be an http or https address without credentials, query and fragment";
    let error = ".refused_error: must be 1 to 40 letters, _ and -";
    let status = ".refused_status: must be 400, 401, 402, 403 or 422";
    for (changes, expected) in [
        (json!({"issuer": "canary"}), issuer),
        (json!({"issuer": "https://x.test/?canary"}), issuer),
        (json!({"issuer": "https://alice:canary@x.test"}), issuer),
        (
            json!({"token_endpoint": "ldap://canary.test"}),
            ".token_endpoint: must be http or https",
        ),
        (
            json!({"revocation_endpoint": "https://x.test/?canary"}),
            ".revocation_endpoint: must have no query and no fragment",
        ),
        (
            json!({"introspection_endpoint": "https://canary@x.test/"}),
            ".introspection_endpoint: must hold no credentials",
        ),
        (
            json!({"discovery_url": "https://x.test/#canary"}),
            ".discovery_url: must have no query and no fragment",
        ),
        (json!({"client_id": ""}), ".client_id: must not be empty"),
        (
            json!({"subject_claim": ""}),
            ".subject_claim: must not be empty",
        ),
        (json!({"refused_error": ""}), error),
        (json!({"refused_error": "canary of the user"}), error),
        (
            json!({"scope": "canary  canary"}),
            ".scope: must be scope names with one space between them (RFC 6749 section 3.3)",
        ),
        (
            json!({"groups_delimiter": ","}),
            ".groups_delimiter: needs groups_claim",
        ),
        (
            json!({"groups_claim": "groups", "groups_delimiter": ""}),
            ".groups_delimiter: must not be empty",
        ),
        (
            json!({"token_parameters": "canary"}),
            ".token_parameters: must be name=value, several of them with & between them",
        ),
        (
            json!({"token_parameters": "password=canary"}),
            ".token_parameters: password is a parameter of the gateway's own",
        ),
        (
            json!({"token_parameters": "a=canary&a=canary"}),
            ".token_parameters: a name occurs twice (RFC 6749 section 3.2)",
        ),
        (json!({"refused_status": 404}), status),
        (json!({"refused_status": 500}), status),
        (
            json!({"ca_file": "/nonexistent/file"}),
            ".ca_file: /nonexistent/file: no such file or directory",
        ),
    ] {
        let problems = settings(&changes).problems("iam.oauth2", false);
        assert_eq!(problems, [format!("iam.oauth2{expected}")], "{changes}");
    }
}

#[test]
fn production_requires_https_everywhere_and_a_strong_secret() {
    let changes = json!({
        "issuer": "http://localhost:1",
        "token_endpoint": "http://localhost:1/token",
        "client_secret": "Secret",
    });
    assert!(settings(&changes).problems("iam.oauth2", false).is_empty());
    assert_eq!(
        settings(&changes).problems("iam.oauth2", true),
        [
            "iam.oauth2.client_secret: shorter than 16 bytes",
            "iam.oauth2.client_secret: a well-known one",
            "iam.oauth2.token_endpoint: must be https in production",
            "iam.oauth2.issuer: must be https in production",
        ]
    );
}

#[test]
fn preset_sets_defaults_that_settings_replace() {
    let glewlwyd = settings(&json!({"preset": "glewlwyd"}));
    let refused = |status, without_body| {
        Some(RefusedStatus {
            status,
            without_body,
        })
    };
    assert_eq!(glewlwyd.refused_status(), refused(403, true));
    assert_eq!(glewlwyd.introspect(), TokenKind::RefreshToken);
    assert_eq!(glewlwyd.subject_claim(), "sub");
    let django = settings(&json!({"preset": "django-oauth-toolkit"}));
    assert_eq!(django.refused_status(), None);
    assert_eq!(django.introspect(), TokenKind::AccessToken);
    assert_eq!(django.subject_claim(), "username");
    let own = json!({
        "preset": "django-oauth-toolkit",
        "introspect": "refresh_token",
        "subject_claim": "user_id",
        "refused_status": 422,
    });
    let own = settings(&own);
    assert_eq!(own.refused_status(), refused(422, false));
    assert_eq!(own.introspect(), TokenKind::RefreshToken);
    assert_eq!(own.subject_claim(), "user_id");
}

#[test]
fn discovery_document_is_below_the_issuer_by_default() {
    let discovery = |changes| settings(&changes).discovery().map(String::from);
    let below = "https://login.example.test/oidc/.well-known/openid-configuration";
    assert_eq!(discovery(json!({})).as_deref(), Some(below));
    let slash = json!({"issuer": "https://login.example.test/oidc/"});
    assert_eq!(discovery(slash).as_deref(), Some(below));
    let django = json!({"preset": "django-oauth-toolkit"});
    let rfc8414 = "https://login.example.test/oidc/.well-known/oauth-authorization-server";
    assert_eq!(discovery(django).as_deref(), Some(rfc8414));
    let set = json!({"discovery_url": "https://x.test/d"});
    assert_eq!(discovery(set).as_deref(), Some("https://x.test/d"));
}
