//! No secret is written at any log level, also not by the LDAP library.

use std::fs;

use iam_conformance::{Account, Fixture as _};
use test_support::canary::Canary;
use test_support::keys::TestKeys;
use test_support::suite::{READ, permissions, session_of, unique_name};
use test_support::wait::until;

use super::directory::{DISPLAY_NAME, Directory};
use crate::process::Process;
use crate::secrecy;

const PASSWORD: &str = "Aa1! canary p\u{e4}ssword of the user ";

/// A user with a permission, and the configuration file of a gateway for the directory.
pub(super) async fn user_and_file(directory: &Directory) -> (Account, String) {
    let email = format!("{}@example.test", unique_name());
    let permissions = permissions(&[READ]);
    let password = PASSWORD.into();
    let subject = directory.create_user(&email, &password, &permissions).await;
    let file = format!("{}/gateway.toml", directory.facts.home);
    fs::write(&file, directory.configuration(READ)).expect("written");
    let user = Account {
        email,
        password,
        subject,
    };
    (user, file)
}

pub(super) async fn no_credential_is_written(directory: &Directory) {
    let (user, file) = user_and_file(directory).await;
    let secrets = [
        (
            "the password of the service account",
            directory.facts.bind_password.clone(),
        ),
        ("the e-mail address", user.email.clone()),
    ];
    let settings = [("AUTH_GATEWAY_CONFIG", file.as_str())];
    secrecy::no_secret_is_written(&settings, &user, &secrets, |_| Vec::new()).await;
}

/// The library logs that it received something for a call that was given up, and must not log what. By default there is
/// no line of it.
pub(super) async fn late_response_is_not_written(directory: &Directory) {
    let (user, file) = user_and_file(directory).await;
    let keys = TestKeys::new();
    let settings = [
        &keys.settings()[..],
        &[
            ("AUTH_GATEWAY_CONFIG", file.as_str()),
            ("upstream.introspection_deadline", "200ms"),
        ],
    ]
    .concat();
    let verbose = [&settings[..], &[("log.filter", "trace,ldap3::conn=trace")]].concat();
    let one = Process::start_and_probe(&verbose).await;
    let other = Process::start_and_probe(&verbose).await;
    let quiet = Process::start_and_probe(&settings).await;
    let session = session_of(&one.client, &user).await;
    directory.pause().await;
    let late = [
        other.client.exchange(&session, READ).await,
        quiet.client.exchange(&session, READ).await,
    ];
    directory.resume();
    assert!(
        late.iter().all(|response| response.status >= 500),
        "{late:?}"
    );
    // The server has responded to what came before.
    directory
        .values(&directory.user_dn(&user.email), "cn")
        .await;
    until("the directory to respond", async || {
        other.client.exchange(&session, READ).await.status == 200
            && quiet.client.exchange(&session, READ).await.status == 200
    })
    .await;
    let by_default = quiet.program.stop().everything();
    let of_library = by_default.lines().find(|line| line.contains("ldap3"));
    assert_eq!(of_library, None);
    let replicas = [one.program, other.program];
    let written = replicas.map(|program| program.stop().everything()).concat();
    for (what, secret) in [
        ("the e-mail address", user.email.as_str()),
        ("an attribute", DISPLAY_NAME),
    ] {
        let canary = Canary::new(what, secret);
        let found = written.lines().find(|line| canary.is_in(line));
        assert_eq!(found, None, "{what}");
    }
    // The control: the same search finds the user's id.
    assert!(Canary::new("the control", user.subject.as_str()).is_in(&written));
}
