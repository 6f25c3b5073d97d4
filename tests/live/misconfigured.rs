//! Misconfigurations at a real IAM: each has its own reason, and none is a 401.

use std::collections::BTreeMap;

use iam_conformance::Account;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use test_support::keys::TestKeys;
use test_support::suite::{READ, session_of};

use crate::fixture::LiveFixture;
use crate::keycloak::Keycloak;
use crate::process::{Process, borrowed, gateway};

/// A misconfiguration, its code in readiness, and its text in the log.
pub(crate) struct MisconfigurationCase {
    settings: Vec<(String, String)>,
    code: &'static str,
    words: &'static str,
}

const NO_GRANTS: (&str, &str) = ("auth-gateway-no-grants", "for-tests-only-9Lw3cJ5hD0sF8pZ2");
const OTHER: (&str, &str) = ("other-gateway", "for-tests-only-6Gx1nV4yR8tK3mB7");

impl MisconfigurationCase {
    fn keycloak(keycloak: &Keycloak, code: &'static str, words: &'static str) -> Self {
        let settings = keycloak
            .settings()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = settings.to_vec();
        Self {
            settings,
            code,
            words,
        }
    }

    /// With these members of `[iam.oauth2]`.
    pub(crate) fn oauth2(
        members: BTreeMap<&'static str, String>,
        code: &'static str,
        words: &'static str,
    ) -> Self {
        let settings = members.into_iter();
        let settings = settings.map(|(name, value)| (format!("iam.oauth2.{name}"), value));
        let settings = settings.collect();
        Self {
            settings,
            code,
            words,
        }
    }

    fn settings(&self) -> Vec<(&str, &str)> {
        borrowed(&self.settings)
    }
}

fn cases(right: &Keycloak) -> Vec<MisconfigurationCase> {
    let secret = right.client_secret.expose_secret();
    let (no_grants, its_secret) = NO_GRANTS;
    let of = |keycloak, code, words| MisconfigurationCase::keycloak(&keycloak, code, words);
    vec![
        of(
            right.as_client(&right.client_id, "another secret"),
            "client_secret",
            "wrong client credentials",
        ),
        of(
            right.as_client("no-such-client", secret),
            "unknown_client",
            "unknown client",
        ),
        of(
            Keycloak {
                realm: "no-such-realm".to_owned(),
                ..right.clone()
            },
            "tenant",
            "unknown or disabled tenant",
        ),
        of(
            right.as_client(no_grants, its_secret),
            "password_login",
            "login with a password is not allowed",
        ),
        of(
            Keycloak {
                url: right.url.replace("localhost", "127.0.0.1"),
                ..right.clone()
            },
            "issuer",
            "another issuer",
        ),
    ]
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn each_misconfiguration_has_its_reason_in_readiness_and_log_and_is_no_401() {
    let fixture = LiveFixture::new().await;
    let user = fixture.user(&[READ]).await;
    each_has_its_reason(&cases(&fixture.keycloak), &user).await;
}

/// Logins with a right and a wrong password are backend errors, whose reason is in readiness and log.
pub(crate) async fn each_has_its_reason(cases: &[MisconfigurationCase], user: &Account) {
    let wrong = SecretString::from("Aa1!not-the-password");
    for case in cases {
        let MisconfigurationCase { code, words, .. } = case;
        let gateway = Process::start_and_probe(&case.settings()).await;
        for password in [&user.password, &wrong] {
            let answer = gateway.client.log_in(&user.email, password).await;
            answer.is_error(500, "server_error");
        }
        let ready = gateway.client.ready().await.json();
        assert_eq!(ready["reasons"][0]["code"], *code, "{ready}");
        let log = gateway.program.stop().log();
        let output: Vec<_> = log.iter().filter(|line| has_error(line, words)).collect();
        let of_route = |route: &str| output.iter().any(|line| line["route"] == route);
        assert!(of_route("login"), "{code}: {log:#?}");
        let at_all = |line: &&&Value| line["message"] == "calls to the IAM fail";
        assert!(output.iter().any(|line| at_all(&line)), "{code}: {log:#?}");
        let mut others = cases.iter().filter(|other| other.code != *code);
        let mixed_up = others.find(|other| log.iter().any(|line| has_error(line, other.words)));
        assert!(mixed_up.is_none(), "{code}: {log:#?}");
        let secret = case.settings.iter();
        let secret = secret.filter(|(name, _)| name.ends_with(".client_secret"));
        let secret = secret.map(|(_, secret)| secret.as_str());
        let mut secrets = secret.chain([
            user.password.expose_secret(),
            wrong.expose_secret(),
            &user.email,
        ]);
        let log = format!("{log:?}");
        assert!(!secrets.any(|secret| log.contains(secret)), "{log}");
    }
}

fn has_error(line: &Value, words: &str) -> bool {
    line["error"]
        .as_str()
        .is_some_and(|error| error.contains(words))
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn misconfigured_replica_never_reports_an_active_session_as_invalid() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let right = fixture.gateway(&keys.settings());
    let session = session_of(&right, &fixture.user(&[READ]).await).await;
    let keycloak = &fixture.keycloak;
    let secret = keycloak.client_secret.expose_secret();
    for (wrong, code) in [
        (
            keycloak.as_client(&keycloak.client_id, "another secret"),
            "client_secret",
        ),
        (
            keycloak.as_client("no-such-client", secret),
            "unknown_client",
        ),
        (keycloak.as_client(OTHER.0, OTHER.1), "foreign_client"),
        (
            keycloak.as_client(NO_GRANTS.0, NO_GRANTS.1),
            "foreign_client",
        ),
    ] {
        let settings = [&wrong.settings()[..], &keys.settings()].concat();
        let replica = Process::start_and_probe(&settings).await;
        let answer = replica.client.exchange(&session, READ).await;
        answer.is_error(500, "server_error");
        let answer = replica.client.exchange(&session, READ).await;
        answer.is_error(500, "server_error");
        let ready = replica.client.ready().await.json();
        assert_eq!(ready["reasons"][0]["code"], code, "{ready}");
        let answer = replica.client.log_out(&session).await;
        answer.is_error(500, "server_error");
        let log = replica.program.stop().log();
        let words = match code {
            "foreign_client" => "session of another client",
            "client_secret" => "wrong client credentials",
            _ => "unknown client",
        };
        for route in ["token", "logout"] {
            let of_route = |line: &&Value| line["route"] == route && has_error(line, words);
            assert!(log.iter().any(|line| of_route(&line)), "{code}: {log:#?}");
        }
        fixture.outlive_freshness();
        assert_eq!(right.exchange(&session, READ).await.token().scope, READ);
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn check_names_each_misconfiguration_and_exits_as_unavailable() {
    let fixture = LiveFixture::new().await;
    let user = fixture.user(&[READ]).await;
    each_is_named_by_check(&cases(&fixture.keycloak), &user);
    let unreachable = Keycloak {
        url: "http://127.0.0.1:9".to_owned(),
        ..fixture.keycloak.clone()
    };
    let (code, output) = check(&[], &unreachable.settings(), None);
    assert_eq!(code, Some(69), "{output}");
    assert!(output.contains("cannot be reached"), "{output}");
}

/// `check` names the misconfiguration, with and without a test account.
pub(crate) fn each_is_named_by_check(cases: &[MisconfigurationCase], user: &Account) {
    for case in cases {
        for account in [None, Some(user)] {
            let (code, output) = check(&[], &case.settings(), account);
            assert_eq!(code, Some(69), "{}: {output}", case.code);
            assert!(output.contains(case.words), "{}: {output}", case.code);
        }
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn check_performs_login_exchange_and_logout_with_a_test_account() {
    let fixture = LiveFixture::new().await;
    let user = fixture.user(&[READ]).await;
    let (code, output) = check(&[], &fixture.keycloak.settings(), Some(&user));
    assert_eq!(code, Some(0), "{output}");
    for step in ["responds, as", "login", "exchange", "logout"] {
        assert!(output.contains(step), "{step}: {output}");
    }
    let left = fixture.administrator.sessions_of(&user.subject).await;
    assert_eq!(left, [].into(), "a session is left behind");
    let wrong = Account {
        password: "Aa1!not-the-password".into(),
        ..user
    };
    let (code, output) = check(&[], &fixture.keycloak.settings(), Some(&wrong));
    assert_eq!(code, Some(69), "{output}");
    assert!(output.contains("login refused"), "{output}");
}

/// The exit code and output of `check --online` with more arguments.
pub(crate) fn check(
    arguments: &[&str],
    settings: &[(&str, &str)],
    account: Option<&Account>,
) -> (Option<i32>, String) {
    let arguments = [&["check", "--online"], arguments].concat();
    let mut command = gateway(&arguments, settings);
    if let Some(account) = account {
        let password = account.password.expose_secret();
        command.env("AUTH_GATEWAY_CHECK_EMAIL", &account.email);
        command.env("AUTH_GATEWAY_CHECK_PASSWORD", password);
    }
    let done = command.output().expect("the program");
    let output = String::from_utf8(done.stdout).expect("text");
    (done.status.code(), output)
}
