use std::io::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::clock::SystemClock;

fn read(changes: &Value) -> serde_json::Result<KeycloakSettings> {
    let mut settings = json!({
        "url": "https://login.example.test/auth",
        "realm": "shop",
        "client_id": "auth-gateway",
        "client_secret": "0123456789abcdef",
    });
    for (key, value) in changes.as_object().expect("an object") {
        settings[key] = value.clone();
    }
    serde_json::from_value(settings)
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
fn good_settings_have_no_problem_even_in_production() {
    assert_eq!(settings(&json!({})).problems(true), Vec::<String>::new());
}

#[test]
fn a_misspelt_key_is_refused() {
    assert!(read(&json!({"client_secrets": "x"})).is_err());
}

#[test]
fn each_problem_is_named_by_its_key_and_without_its_value() {
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
            json!({"client_secret": ""}),
            "client_secret: must not be empty",
        ),
        (
            json!({"issuer": "canary"}),
            "issuer: must be an http or https address without query and fragment",
        ),
        (
            json!({"issuer": "https://x.test/?canary"}),
            "issuer: must be an http or https address without query and fragment",
        ),
        (
            json!({"client_secret": null, "client_secret_file": "/nonexistent/file"}),
            "client_secret_file: /nonexistent/file: no such file or directory",
        ),
        (
            json!({"client_secret": null, "client_secret_file": "canary"}),
            "client_secret_file: no such file or directory (a relative path, not shown because it \
             may be the secret itself)",
        ),
        (
            json!({"ca_file": "/nonexistent/file"}),
            "ca_file: /nonexistent/file: no such file or directory",
        ),
    ] {
        let problems = settings(&changes).problems(false);
        assert_eq!(problems, [format!("iam.keycloak.{expected}")], "{changes}");
    }
}

#[test]
fn exactly_one_of_secret_and_secret_file_is_needed() {
    let both = settings(&json!({"client_secret_file": "/nonexistent"}));
    assert_eq!(
        both.problems(false),
        ["iam.keycloak: client_secret and client_secret_file exclude each other"]
    );
    let neither = settings(&json!({"client_secret": null}));
    assert_eq!(
        neither.problems(false),
        ["iam.keycloak: client_secret or client_secret_file is needed"]
    );
}

#[test]
fn every_problem_is_told_at_once() {
    let changes = json!({
        "url": "http://canary@x.test/?q",
        "realm": "",
        "client_id": "",
        "client_secret": "Secret",
        "issuer": "canary",
        "ca_file": "/nonexistent",
    });
    let problems = settings(&changes).problems(true);
    assert_eq!(problems.len(), 9, "{problems:#?}");
    assert!(!problems.concat().contains("canary"));
}

#[test]
fn production_wants_https_and_a_secret_that_nobody_guesses() {
    let plain = settings(&json!({"url": "http://localhost:8080"}));
    assert!(plain.problems(false).is_empty());
    assert_eq!(
        plain.problems(true),
        ["iam.keycloak.url: must be https in production"]
    );
    let short = settings(&json!({"client_secret": "0123456789abcde"}));
    assert!(short.problems(false).is_empty());
    assert_eq!(
        short.problems(true),
        ["iam.keycloak.client_secret: shorter than 16 bytes"]
    );
    let known = settings(&json!({"client_secret": "Change-Me-In-Production"}));
    assert_eq!(
        known.problems(true),
        ["iam.keycloak.client_secret: a well-known one"]
    );
    let from_file = file(b"changeme\n");
    let changes = json!({"client_secret": null, "client_secret_file": from_file.path()});
    assert_eq!(settings(&changes).problems(true).len(), 2);
}

#[test]
fn a_secret_file_loses_its_newline_and_nothing_else() {
    for (content, expected) in [
        (&b" a b \n"[..], " a b "),
        (b"a\r\n", "a"),
        (b"a", "a"),
        (b"a\nb\n", "a\nb"),
    ] {
        let file = file(content);
        let changes = json!({"client_secret": null, "client_secret_file": file.path()});
        let secret = settings(&changes).secret().expect("a secret");
        assert_eq!(secret.expose_secret(), expected);
    }
    for content in [&b"\n"[..], b"", b"\xff\xfe"] {
        let file = file(content);
        let changes = json!({"client_secret": null, "client_secret_file": file.path()});
        assert_eq!(settings(&changes).problems(false).len(), 1);
    }
}

#[test]
fn a_ca_file_has_to_hold_certificates() {
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let prose = b"no certificate";
    for content in [&b""[..], prose, broken] {
        let file = file(content);
        let settings = settings(&json!({"ca_file": file.path()}));
        let clock = Arc::new(SystemClock::default());
        let refused = super::super::Keycloak::new(&settings, Duration::from_secs(1), clock);
        let error = refused.expect_err("no certificates").to_string();
        let path = file.path().display();
        assert_eq!(
            error,
            format!("iam.keycloak.ca_file: {path}: not a file of PEM certificates")
        );
    }
}

#[test]
fn the_issuer_is_the_realms_address_unless_told() {
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
