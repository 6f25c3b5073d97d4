use std::io::Write as _;
use std::sync::Arc;

use config::ConfigError;
use serde_json::{Value, json};
use test_support::json::with;

use super::*;
use crate::clock::SystemClock;

fn read(changes: &Value) -> Result<KeycloakSettings, ConfigError> {
    let settings = json!({
        "url": "https://login.example.test/auth",
        "realm": "shop",
        "client_id": "auth-gateway",
        "client_secret": "0123456789abcdef",
    });
    KeycloakSettings::read(serde_json::from_value(with(settings, changes)).expect("a section"))
}

fn settings(changes: &Value) -> KeycloakSettings {
    read(changes).expect("settings")
}

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(content).expect("written");
    file
}

#[test]
fn valid_settings_have_no_problem_in_production() {
    assert_eq!(
        settings(&json!({})).problems("iam.keycloak", true),
        Vec::<String>::new()
    );
}

#[test]
fn misspelt_key_is_refused() {
    assert!(read(&json!({"client_secrets": "x"})).is_err());
}

#[test]
fn problem_names_its_key_without_its_value() {
    let file = "ca_file: /nonexistent/file: no such file or directory";
    let issuer = "issuer: must be an http or https address without credentials, query and fragment";
    let url = json!({"url": "https://canary@x.test"});
    let client = json!({"permissions_client": ""});
    for (changes, expected) in [
        (url, "url: must hold no credentials"),
        (json!({"realm": ""}), "realm: must be the name of a realm"),
        (json!({"realm": ".."}), "realm: must be the name of a realm"),
        (json!({"client_id": ""}), "client_id: must not be empty"),
        (client, "permissions_client: must not be empty"),
        (json!({"issuer": "https://x.test/?canary"}), issuer),
        (json!({"ca_file": "/nonexistent/file"}), file),
    ] {
        let problems = settings(&changes).problems("iam.keycloak", false);
        assert_eq!(problems, [format!("iam.keycloak.{expected}")], "{changes}");
    }
}

#[test]
fn all_problems_are_reported_together() {
    let changes = json!({
        "url": "http://canary@x.test/?q",
        "realm": "",
        "client_id": "",
        "client_secret": "Secret",
        "issuer": "canary",
        "ca_file": "/nonexistent",
    });
    let problems = settings(&changes).problems("iam.keycloak", true);
    assert_eq!(problems.len(), 9, "{problems:#?}");
    assert!(!problems.concat().contains("canary"));
}

#[test]
fn ca_file_must_contain_certificates() {
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let prose = b"no certificate";
    for content in [&b""[..], prose, broken] {
        let file = file(content);
        let settings = settings(&json!({"ca_file": file.path()}));
        let clock = Arc::new(SystemClock::default());
        let refused = settings.connect("iam.keycloak", clock, Duration::from_secs(1), None);
        let error = refused.expect_err("no certificates").to_string();
        let path = file.path().display();
        assert_eq!(
            error,
            format!("iam.keycloak.ca_file: {path}: not a file of PEM certificates")
        );
    }
}

#[test]
fn issuer_is_the_address_of_the_realm_by_default() {
    let issuer = |changes| settings(&changes).expected_issuer();
    assert_eq!(
        issuer(json!({})),
        "https://login.example.test/auth/realms/shop"
    );
    assert_eq!(
        issuer(json!({"url": "https://x.test:443/", "realm": "a b/c?ü"})),
        "https://x.test/realms/a%20b%2Fc%3F%C3%BC"
    );
    assert_eq!(
        issuer(json!({"issuer": "https://public.test/realms/shop"})),
        "https://public.test/realms/shop"
    );
}
