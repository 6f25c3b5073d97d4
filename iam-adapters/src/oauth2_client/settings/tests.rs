use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use test_support::json::with;

use super::*;
use crate::keycloak::KeycloakSettings;
use crate::oauth2::OAuth2Settings;

/// The problems of the settings at both adapters, which must be the same, without the section.
fn problems(changes: &serde_json::Value, production: bool) -> Vec<String> {
    let section = |section| serde_json::from_value(with(section, changes)).expect("a section");
    let keycloak = KeycloakSettings::read(section(json!({
        "url": "https://login.example.test", "realm": "shop", "client_id": "auth-gateway",
    })));
    let oauth2 = OAuth2Settings::read(section(json!({
        "issuer": "https://login.example.test/oidc", "client_id": "auth-gateway",
    })));
    let found = keycloak.expect("settings").problems("iam.corp", production);
    let at_oauth2 = oauth2.expect("settings").problems("iam.corp", production);
    assert_eq!(found, at_oauth2);
    let found = found.iter().map(|line| line.replacen("iam.corp", "", 1));
    found.collect()
}

fn written(folder: &Path, name: &str, content: &str, mode: u32) -> String {
    let file = folder.join(name);
    fs::write(&file, content).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(mode)).expect("a mode");
    file.display().to_string()
}

#[test]
fn setting_of_another_method_and_missing_one_are_problems() {
    let secret = "0123456789abcdef";
    for (changes, expected) in [
        (json!({"client_secret": secret}), &[][..]),
        (
            json!({"client_secret": secret, "client_auth_method": "client_secret_post"}),
            &[],
        ),
        (
            json!({}),
            &[": client_secret or client_secret_file is needed"],
        ),
        (
            json!({"client_secret": ""}),
            &[".client_secret: must not be empty"],
        ),
        (
            json!({"client_secret": secret, "client_id": ""}),
            &[".client_id: must not be empty"],
        ),
        (
            json!({"client_secret": secret, "private_key_file": "/canary"}),
            &[".private_key_file: needs client_auth_method = \"private_key_jwt\""],
        ),
        (
            json!({"client_secret": secret, "client_assertion_file": "/canary"}),
            &[".client_assertion_file: needs client_auth_method = \"client_assertion\""],
        ),
        (
            json!({
                "client_secret": secret,
                "client_certificate_file": "/canary",
                "client_key_file": "/canary",
            }),
            &[
                ".client_certificate_file: needs client_auth_method = \"tls_client_auth\"",
                ".client_key_file: needs client_auth_method = \"tls_client_auth\"",
            ],
        ),
        (
            json!({"client_auth_method": "private_key_jwt"}),
            &[".private_key_file: private_key_jwt needs it"],
        ),
        (
            json!({"client_auth_method": "client_assertion"}),
            &[".client_assertion_file: client_assertion needs it"],
        ),
        (
            json!({"client_auth_method": "tls_client_auth", "client_secret": "canary"}),
            &[
                ".client_secret: tls_client_auth uses no secret",
                ".client_certificate_file: tls_client_auth needs it",
            ],
        ),
        (
            json!({"client_auth_method": "tls_client_auth", "client_certificate_file": "/x"}),
            &[".client_key_file: tls_client_auth needs it"],
        ),
    ] {
        assert_eq!(problems(&changes, true), expected, "{changes}");
    }
}

#[test]
fn production_requires_a_strong_secret() {
    let problems =
        |secret: &str, production| problems(&json!({ "client_secret": secret }), production);
    assert_eq!(problems("changeme", false), [""; 0]);
    let short = ".client_secret: shorter than 16 bytes";
    let known = ".client_secret: a well-known one";
    assert_eq!(problems("0123456789abcde", true), [short]);
    assert_eq!(problems("Change-Me-In-Production", true), [known]);
    assert_eq!(problems("changeme", true), [short, known]);
}

#[test]
fn files_must_have_what_the_method_needs_and_not_be_readable_by_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name, content: &str, mode| written(folder.path(), name, content, mode);
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["client".to_owned()]).expect("a certificate");
    let key = signing_key.serialize_pem();
    let other = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let certificate = write("certificate", &cert.pem(), 0o644);
    let token = "e30.e30.e30";
    // `{"exp":1800000000.5}`
    let with_fraction = "e30.eyJleHAiOjE4MDAwMDAwMDAuNX0.e30";
    // `{"exp":"1"}`
    let exp_as_text = "e30.eyJleHAiOiIxIn0.e30";
    for (method, name, content, expected) in [
        ("private_key_jwt", "private_key_file", key.as_str(), None),
        (
            "private_key_jwt",
            "private_key_file",
            "canary",
            Some("not a private key in PEM"),
        ),
        ("client_assertion", "client_assertion_file", token, None),
        (
            "client_assertion",
            "client_assertion_file",
            with_fraction,
            None,
        ),
        (
            "client_assertion",
            "client_assertion_file",
            "canary",
            Some("not a JWT"),
        ),
        (
            "client_assertion",
            "client_assertion_file",
            "e30.Y2FuYXJ5.canary",
            Some("not a JWT"),
        ),
        (
            "client_assertion",
            "client_assertion_file",
            exp_as_text,
            Some("not a JWT"),
        ),
        ("tls_client_auth", "client_key_file", &key, None),
        (
            "tls_client_auth",
            "client_key_file",
            "canary",
            Some("not a PEM private key"),
        ),
    ] {
        let mut changes = json!({ "client_auth_method": method });
        if method == "tls_client_auth" {
            changes["client_certificate_file"] = json!(certificate);
        }
        let file = write("file", content, 0o600);
        changes[name] = json!(file);
        let found = problems(&changes, true);
        let expected = expected.map(|expected| format!(".{name}: {file}: {expected}"));
        match expected {
            None => assert_eq!(found, [""; 0], "{method}"),
            Some(expected) => assert!(found[0].starts_with(&expected), "{found:?}"),
        }
        assert!(!found.concat().contains("canary"), "{found:?}");
        write("file", content, 0o604);
        let found = problems(&changes, true);
        let exposed = format!(".{name}: {file}: every user may read or change it");
        assert!(found[0].starts_with(&exposed), "{found:?}");
    }
    let pair = json!({
        "client_auth_method": "tls_client_auth",
        "client_certificate_file": certificate,
        "client_key_file": write("file", &other, 0o600),
    });
    let found = problems(&pair, true);
    let mismatch = ": the certificate and the key do not belong together";
    assert!(found[0].starts_with(mismatch), "{found:?}");
    let neither = json!({
        "client_auth_method": "tls_client_auth",
        "client_certificate_file": "/nonexistent/c",
        "client_key_file": "/nonexistent/k",
    });
    assert_eq!(
        problems(&neither, true),
        [
            ".client_certificate_file: /nonexistent/c: no such file or directory",
            ".client_key_file: /nonexistent/k: no such file or directory",
        ]
    );
}

#[test]
fn claim_of_the_gateway_is_a_problem() {
    let changes = json!({
        "client_secret": "0123456789abcdef",
        "claims": {"sub": {"member": "id"}, "dept": {"member": "department"}},
    });
    let problem = ".claims: `sub` is a claim of the gateway";
    assert_eq!(problems(&changes, false), [problem]);
}

/// A claim is cached for all sessions of its user.
#[test]
fn member_of_one_session_or_token_is_no_claim() {
    let of = |member: &str| {
        let changes = json!({
            "client_secret": "0123456789abcdef",
            "claims": {"dept": {"member": member}},
        });
        problems(&changes, false)
    };
    let problem =
        ".claims: the member of `dept` is about one session or token, and claims are about a user";
    let members = [
        "exp",
        "iat",
        "jti",
        "auth_time",
        "acr",
        "sid",
        "session_state",
    ];
    for member in members.into_iter().chain(["/sid", "/cnf/jkt"]) {
        assert_eq!(of(member), [problem], "{member}");
    }
    for member in ["sub", "username", "side", "sid/x", "/a/sid", "/sid~1x"] {
        assert_eq!(of(member), [""; 0], "{member}");
    }
}

#[test]
fn file_of_authorities_with_an_invalid_certificate_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let rcgen::CertifiedKey { cert, .. } =
        rcgen::generate_simple_self_signed(["iam".to_owned()]).expect("a certificate");
    let invalid = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (content, is_usable) in [
        (cert.pem(), true),
        (cert.pem() + invalid, false),
        (invalid.to_owned(), false),
        (String::new(), false),
    ] {
        let file = written(folder.path(), "authorities", &content, 0o644);
        let changes = json!({"client_secret": "0123456789abcdef", "ca_file": file});
        let refused = format!(".ca_file: {file}: not a file of PEM certificates");
        let expected = if is_usable { Vec::new() } else { vec![refused] };
        assert_eq!(problems(&changes, false), expected, "{content}");
    }
}

#[test]
fn authentication_by_tls_needs_https() {
    let folder = tempfile::tempdir().expect("a folder");
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["client".to_owned()]).expect("a certificate");
    let certificate = written(folder.path(), "certificate", &cert.pem(), 0o600);
    let key = written(folder.path(), "key", &signing_key.serialize_pem(), 0o600);
    let section = json!({
        "url": "http://login.example.test",
        "realm": "shop",
        "client_id": "auth-gateway",
        "client_auth_method": "tls_client_auth",
        "client_certificate_file": certificate,
        "client_key_file": key,
    });
    let section = serde_json::from_value(section).expect("a section");
    let settings = KeycloakSettings::read(section).expect("settings");
    assert_eq!(
        settings.problems("iam.corp", false),
        ["iam.corp.url: must be https with tls_client_auth"]
    );
}

#[test]
fn refused_value_is_named_by_its_key() {
    let section = json!({
        "url": "http://x.test",
        "realm": "shop",
        "client_id": "auth-gateway",
        "client_auth_method": "none",
    });
    let section = serde_json::from_value(section).expect("a section");
    let refused = KeycloakSettings::read(section).expect_err("no method");
    let refused = format!("{refused:?}");
    assert!(refused.contains("client_auth_method"), "{refused}");
}

#[test]
fn debug_output_has_no_secret_assertion_or_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let middle = key.lines().nth(1).expect("a line");
    let key = written(folder.path(), "key", &key, 0o600);
    // {"x":"canary"}
    let token = "e30.eyJ4IjoiY2FuYXJ5In0.canary";
    let token = written(folder.path(), "token", token, 0o600);
    for settings in [
        json!({"client_secret": "canary"}),
        json!({"client_auth_method": "client_secret_post", "client_secret": "canary"}),
        json!({"client_auth_method": "private_key_jwt", "private_key_file": key}),
        json!({"client_auth_method": "client_assertion", "client_assertion_file": token}),
    ] {
        let mut section = settings.clone();
        section["client_id"] = json!("auth-gateway");
        let settings: OAuth2ClientSettings = serde_json::from_value(section).expect("settings");
        let preset = ClientAuthPreset::STANDARD;
        let authentication = settings.authentication("iam.x", "https://x.test", preset);
        let shown = format!("{:?}", authentication.expect("usable"));
        for secret in ["canary", "eyJ4IjoiY2FuYXJ5In0", middle] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
