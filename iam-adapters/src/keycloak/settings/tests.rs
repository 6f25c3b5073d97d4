use std::io::Write as _;
use std::sync::Arc;

use config::ConfigError;
use serde_json::{Value, json};

use super::*;
use crate::clock::SystemClock;

fn read(changes: &Value) -> Result<KeycloakSettings, ConfigError> {
    let mut settings = json!({
        "url": "https://login.example.test/auth",
        "realm": "shop",
        "client_id": "auth-gateway",
        "client_secret": "0123456789abcdef",
    });
    for (key, value) in changes.as_object().expect("an object") {
        settings[key] = value.clone();
    }
    KeycloakSettings::read(serde_json::from_value(settings).expect("a section"))
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
    for (changes, expected) in [
        (
            json!({"url": "ldap://canary.test"}),
            "url: must be http or https",
        ),
        (
            json!({"url": "https://x.test/?canary"}),
            "url: must have no query and no fragment",
        ),
        (
            json!({"url": "https://x.test/#canary"}),
            "url: must have no query and no fragment",
        ),
        (
            json!({"url": "https://canary@x.test"}),
            "url: must hold no credentials",
        ),
        (
            json!({"url": "https://:canary@x.test"}),
            "url: must hold no credentials",
        ),
        (json!({"realm": ""}), "realm: must be the name of a realm"),
        (json!({"realm": ".."}), "realm: must be the name of a realm"),
        (json!({"client_id": ""}), "client_id: must not be empty"),
        (
            json!({"permissions_client": ""}),
            "permissions_client: must not be empty",
        ),
        (
            json!({"issuer": "canary"}),
            "issuer: must be an http or https address without credentials, query and fragment",
        ),
        (
            json!({"issuer": "https://x.test/?canary"}),
            "issuer: must be an http or https address without credentials, query and fragment",
        ),
        (
            json!({"issuer": "https://alice:canary@x.test"}),
            "issuer: must be an http or https address without credentials, query and fragment",
        ),
        (
            json!({"ca_file": "/nonexistent/file"}),
            "ca_file: /nonexistent/file: no such file or directory",
        ),
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
fn production_requires_https() {
    let plain = settings(&json!({"url": "http://localhost:8080"}));
    assert!(plain.problems("iam.keycloak", false).is_empty());
    assert_eq!(
        plain.problems("iam.keycloak", true),
        ["iam.keycloak.url: must be https in production"]
    );
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
        issuer(json!({"url": "https://x.test:443/", "realm": "a b"})),
        "https://x.test/realms/a%20b"
    );
    assert_eq!(
        issuer(json!({"issuer": "https://public.test/realms/shop"})),
        "https://public.test/realms/shop"
    );
}
