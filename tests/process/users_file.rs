//! The users file and the fixed signing key of the mock, for test suites of applications.

use std::path::Path;

use test_support::endpoints::LOGIN;
use test_support::wire::{Connection, get, post};

use crate::GATEWAY;

const CAROL: &str = r#"{"email":"carol@example.test","password":"carol-pass"}"#;

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("a name").to_owned()
}

#[test]
fn users_file_replaces_the_demo_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(r#"{{"users": [{CAROL}]}}"#);
    let file = written(folder.path(), "users.json", &text);
    let mut program = GATEWAY.serve(&[("iam.mock.users_file", &file)]);
    let (public, _) = program.addresses();
    let mut connection = Connection::to(public);
    assert_eq!(connection.send(post(LOGIN, CAROL)).answer().status, 200);
    let alice = CAROL.replace("carol", "alice");
    assert_eq!(connection.send(post(LOGIN, &alice)).answer().status, 401);
}

#[test]
fn invalid_users_file_prevents_the_start_and_no_password_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let half =
        "users:\n- {email: a@b, password: canary}\n- {email: c@d, password: canary, role: x}";
    let file = written(folder.path(), "users.yaml", half);
    let ended = GATEWAY.run(&[], &[("iam.mock.users_file", &file)]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    let detail = "user 2 (\"c@d\"): key role is unknown";
    let expected = format!("iam.mock.users_file: {file}: {detail}");
    assert!(ended.err.contains(&expected), "{expected}\n{}", ended.err);
    assert!(!ended.everything().contains("canary"), "{ended:?}");
    let missing = GATEWAY.run(&[], &[("iam.mock.users_file", "no/such.yaml")]);
    assert_eq!(missing.code, Some(64), "{missing:?}");
    assert!(missing.err.contains("no/such.yaml: cannot be read"));
}

#[test]
fn fixed_signing_key_is_published_and_named_on_the_start_screen() {
    let mut program = GATEWAY.serve(&[("iam.mock.fixed_signing_key", "true")]);
    let (public, _) = program.addresses();
    let screen = program.wait_for_stderr("grant_type");
    assert!(
        screen.contains("the signing key is the published one"),
        "{screen}"
    );
    assert!(
        !screen.contains("the signing key was generated at start"),
        "{screen}"
    );
    let mut connection = Connection::to(public);
    let published = connection.send(get("/.well-known/jwks.json")).answer();
    let published = published.json();
    let known = include_str!("../../dev/src/fixed_signing_key.json");
    let known: serde_json::Value = serde_json::from_str(known).expect("a JWK");
    let [key] = published["keys"].as_array().expect("keys").as_slice() else {
        panic!("{published}")
    };
    for member in ["kid", "alg", "crv", "x", "y"] {
        assert_eq!(key[member], known[member], "{member}");
    }
    assert!(key.get("d").is_none(), "{key}");
}
