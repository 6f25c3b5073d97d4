//! The settings of `auth-gateway init` and of docs/oauth2.md, unchanged except for addresses, files and
//! what they leave to the operator.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use iam_conformance::Account;
use test_support::keys::TestKeys;
use test_support::suite::{READ, WRITE};

use super::server::OAuth2Fixture;
use crate::misconfigured::check;
use crate::process::gateway;

/// Fails unless a test account can use the server with this configuration file.
fn works(fixture: &OAuth2Fixture, user: &Account, text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (config, secret) = (path("auth-gateway.toml"), path("client-secret"));
    fs::write(&config, text).expect("written");
    fs::write(&secret, fixture.server.secret("basic")).expect("written");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode");
    let identifier = path("identifier-key");
    fs::write(&identifier, "a key of 32 characters and more!!").expect("written");
    fs::set_permissions(&identifier, Permissions::from_mode(0o600)).expect("a mode");
    let keys = TestKeys::new();
    let settings = [
        ("environment", "development"),
        ("http.public_url", "http://gateway.test"),
        ("iam.oauth2.issuer", fixture.server.issuer()),
        ("iam.oauth2.client_secret_file", &secret),
        ("keys.identifier_key_file", &identifier),
    ];
    let settings = [&settings[..], &keys.settings()].concat();
    let (code, output) = check(&["--config", &config], &settings, Some(user));
    assert_eq!(code, Some(0), "{output}");
    for step in ["responds, as", "login", "exchange", "logout"] {
        assert!(output.contains(step), "{step}: {output}");
    }
}

pub(super) async fn settings_of_init_work_with_the_server(fixture: &OAuth2Fixture) {
    let user = fixture.iam.user(&[READ]).await;
    let written = gateway(&["init", "--iam", "oauth2"], &[]).output();
    let written = String::from_utf8(written.expect("the program").stdout).expect("text");
    // What the comments of the file leave to the operator.
    let preset = format!("preset = \"{}\"", fixture.server.kind.preset());
    let needs_scope = fixture.server.settings("basic").contains_key("scope");
    let lines = written.lines().map(|line| match line.strip_prefix('#') {
        Some(set) if set.starts_with("preset = ") => &preset,
        Some(set) if set.starts_with("scope = ") && needs_scope => set,
        _ => line,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    assert_ne!(text, written.trim_end(), "the file has these comments");
    works(fixture, &user, &text);
}

pub(super) async fn settings_in_the_documentation_work_with_the_server(fixture: &OAuth2Fixture) {
    let user = fixture.iam.user(&[READ, WRITE]).await;
    let page = include_str!("../../../docs/oauth2.md");
    let preset = format!("preset = \"{}\"", fixture.server.kind.preset());
    let mut blocks = page.split("```toml\n").skip(1);
    let block = blocks.find(|block| block.contains(&preset));
    let block = block.and_then(|block| block.split("```").next());
    works(fixture, &user, block.expect("a section with this preset"));
}
