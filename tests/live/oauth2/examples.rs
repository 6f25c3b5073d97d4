//! The settings of `auth-gateway init` and of docs/oauth2.md.

use iam_conformance::Account;
use test_support::suite::{READ, WRITE};

use super::server::OAuth2Fixture;
use crate::process::gateway;
use crate::settings_file::{block, works};

fn works_with(fixture: &OAuth2Fixture, user: &Account, text: &str) {
    let (issuer, secret) = (fixture.server.issuer(), fixture.server.secret("basic"));
    works(
        user,
        text,
        &[("iam.oauth2.issuer", issuer)],
        &[("iam.oauth2.client_secret_file", secret)],
    );
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
    works_with(fixture, &user, &text);
}

pub(super) async fn settings_in_the_documentation_work_with_the_server(fixture: &OAuth2Fixture) {
    let user = fixture.iam.user(&[READ, WRITE]).await;
    let page = include_str!("../../../docs/oauth2.md");
    let preset = format!("preset = \"{}\"", fixture.server.kind.preset());
    works_with(fixture, &user, block(page, &preset));
}
