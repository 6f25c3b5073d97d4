//! Settings with which the gateway does not start: each problem by its name, and an exit code for
//! its kind.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;

use test_support::program::Program;

use crate::{GATEWAY, KEYCLOAK};

const FREE: [(&str, &str); 2] = [
    ("http.listen", "127.0.0.1:0"),
    ("management.listen", "127.0.0.1:0"),
];

#[test]
fn all_problems_of_the_settings_are_reported_together_and_no_port_is_bound() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let ended = GATEWAY.run(
        &["serve"],
        &[
            // If a port were bound before the settings are checked, this one would be the problem.
            ("http.listen", &taken),
            ("http.workers", "0"),
            ("token.lifetime", "2d"),
            ("log.filter", "auth_gateway=loud"),
            ("http.listn", "x"),
        ],
    );
    assert_eq!(ended.code, Some(64), "{ended:?}");
    for key in [
        "http.workers",
        "token.lifetime",
        "log.filter",
        "AUTH_GATEWAY__HTTP__LISTN",
    ] {
        assert!(ended.err.contains(key), "{key}: {}", ended.err);
    }
    assert!(!ended.err.contains("cannot listen"), "{}", ended.err);
    assert_eq!(ended.out.trim(), "");
}

#[test]
fn occupied_port_is_named_as_an_internal_failure() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for (variable, key) in [
        ("http.listen", "http.listen"),
        ("management.listen", "management.listen"),
    ] {
        let ended = GATEWAY.run(
            &[],
            &[&FREE[..], &KEYCLOAK, &[(variable, &address)]].concat(),
        );
        assert_eq!(ended.code, Some(70), "{ended:?}");
        let expected = format!("auth-gateway: cannot listen on {address} ({key}): ");
        assert!(ended.err.contains(&expected), "{expected}: {}", ended.err);
        assert!(!ended.err.contains("Try it"), "{}", ended.err);
    }
}

#[test]
fn variable_that_is_not_utf_8_is_named() {
    let variable = "AUTH_GATEWAY__TOKEN__CLIENT_ID";
    let mut command = GATEWAY.command(&["check"], &KEYCLOAK);
    command.env(variable, OsStr::from_bytes(b"canary-\xff"));
    let ended = Program::start(command).wait();
    assert_eq!(ended.code, Some(64), "{ended:?}");
    let expected = format!("auth-gateway: {variable}: is not UTF-8\n");
    assert!(ended.err.contains(&expected), "{}", ended.err);
    assert!(!ended.everything().contains("canary"), "{ended:?}");
}

#[test]
fn configuration_without_an_iam_is_refused_with_the_available_sections() {
    for environment in ["development", "production"] {
        let ended = GATEWAY.run(&["serve"], &[("ENVIRONMENT", environment)]);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let expected = "iam: no IAM is configured; one section is needed, of iam.keycloak";
        assert!(ended.err.contains(expected), "{}", ended.err);
    }
}

#[test]
fn section_with_a_misspelt_type_is_not_reported_as_a_missing_iam() {
    let ended = GATEWAY.run(&["serve"], &[("iam.corp.type", "keycloack")]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    let expected = "iam.corp: type: there is no such adapter; there are: keycloak";
    assert!(ended.err.contains(expected), "{}", ended.err);
    assert!(!ended.err.contains("no IAM is configured"), "{}", ended.err);
}

#[test]
fn section_of_the_mock_is_unknown() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&file, "[iam.mock]\n").expect("written");
    let path = file.path().to_str().expect("text");
    let written = GATEWAY.run(&["--config", path], &[]);
    let set = GATEWAY.run(&[], &[("iam.mock.users_file", "users.toml")]);
    for (ended, key) in [
        (written, "iam.mock"),
        (set, "AUTH_GATEWAY__IAM__MOCK__USERS_FILE"),
    ] {
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let expected = format!("{key}: no such setting");
        assert!(ended.err.contains(&expected), "{expected}: {}", ended.err);
    }
}

#[test]
fn unknown_arguments_and_a_missing_file_are_configuration_errors() {
    for arguments in [
        &["run"][..],
        &["--confg", "x"],
        &["--config", "no/such/file.toml"],
        &["check", "--config", "no/such/file.toml"],
        &["keys"],
        &["keys", "list", "--dir", "no/such/folder"],
    ] {
        let ended = GATEWAY.run(arguments, &[]);
        assert_eq!(ended.code, Some(64), "{arguments:?}: {ended:?}");
        assert!(!ended.everything().trim().is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_and_the_version_go_to_standard_output() {
    for argument in ["--help", "--version"] {
        let ended = GATEWAY.run(&[argument], &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("auth-gateway"), "{ended:?}");
        assert_eq!(ended.err.trim(), "");
    }
}
