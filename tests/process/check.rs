//! `check`: settings are tested before they are used.

use std::io::{self, Write as _};

use serde_json::json;
use test_support::gateway::scripted_keycloak_settings;
use test_support::program::{Ended, Program};
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, LOGOUT, TOKEN as GRANT, active, inactive, refusal,
};
use test_support::scripted_upstream::oauth2::DJANGO_OAUTH_TOOLKIT;
use test_support::scripted_upstream::{Answer, RefusingPort, ScriptedUpstream};

use crate::GATEWAY;

const ACCOUNT: [(&str, &str); 2] = [
    ("AUTH_GATEWAY_CHECK_EMAIL", "alice@example.test"),
    ("AUTH_GATEWAY_CHECK_PASSWORD", "alice-pass"),
];

/// The check probes with a made-up token and without a user, and then tries a made-up account.
fn refuses_probe_and_made_up_account(iam: &ScriptedUpstream) {
    iam.once(INTROSPECTION, inactive());
    for _ in 0..2 {
        iam.once(
            GRANT,
            refusal(401, "invalid_grant", "Invalid user credentials"),
        );
    }
}

/// As the check takes them.
fn borrowed<K: AsRef<str>>(settings: &[(K, String)]) -> Vec<(&str, &str)> {
    let settings = settings.iter();
    settings
        .map(|(key, value)| (key.as_ref(), &**value))
        .collect()
}

fn online(variables: &[(&str, &str)]) -> Ended {
    GATEWAY.run(&["check", "--online"], variables)
}

#[test]
fn settings_in_a_pipe_are_checked() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let text = b"[token]\nlifetime = \"2d\"\n";
    writer.write_all(text).expect("written");
    drop(writer);
    let mut check = GATEWAY.command(&["check", "--config", "/dev/stdin"], &[]);
    check.stdin(reader);
    let ended = Program::start(check).wait();
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.out.contains("- token.lifetime: "), "{}", ended.out);
}

#[test]
fn check_states_for_each_iam_which_logins_it_gets_and_what_it_cannot_do() {
    let ended = GATEWAY.run(
        &["check"],
        &[
            ("iam.shop.type", "keycloak"),
            ("iam.shop.url", "http://127.0.0.1:1"),
            ("iam.shop.realm", "shop"),
            ("iam.shop.client_id", "gateway"),
            ("iam.shop.client_secret", "secret"),
            ("iam.shop.default", "true"),
            ("iam.partner.type", "oauth2"),
            ("iam.partner.issuer", "http://127.0.0.1:1/partner"),
            ("iam.partner.client_id", "gateway"),
            ("iam.partner.client_secret", "secret"),
            ("iam.partner.domains", "partner.test, partner.example"),
            ("iam.partner.subject_prefix", "partner-"),
            ("iam.old.type", "oauth2"),
            ("iam.old.issuer", "http://127.0.0.1:1/old"),
            ("iam.old.client_id", "gateway"),
            ("iam.old.client_secret", "secret"),
            ("iam.old.login", "false"),
            ("iam.old.subject_prefix", "old-"),
            ("iam.old.detects_disabled", "true"),
            ("iam.old.deleted_account", "without_subject"),
            ("iam.old.current_permissions", "true"),
        ],
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<_> = ended.out.lines().map(str::trim).collect();
    let later = "a session that ends at the IAM is refused only after the freshness of cached data";
    let no_otp = "a login with a one-time password is refused as an invalid request";
    let of_iam = |name: &str, following: usize| {
        let header = format!("IAM           {name}");
        let at = lines.iter().position(|line| line.starts_with(&header));
        at.map(|at| lines.iter().skip(at).take(following).copied())
            .map(Vec::from_iter)
            .unwrap_or_default()
    };
    assert_eq!(
        of_iam("old", 5),
        [
            "IAM           old, no logins",
            "IAM adapter   oauth2",
            "capabilities  sessions at the IAM, current permissions, detects disabled and deleted accounts, \
             no back-channel logout, no one-time passwords",
            later,
            no_otp,
        ]
    );
    assert_eq!(
        of_iam("partner", 8),
        [
            "IAM           partner, logins of partner.test, partner.example",
            "IAM adapter   oauth2",
            "capabilities  sessions at the IAM, permissions of the login, detects neither \
             disabled nor deleted accounts, no back-channel logout, no one-time passwords",
            "sessions of a disabled account stay active until they expire",
            "sessions of a deleted account stay active until they expire",
            "changes of a user's permissions and groups take effect at the next login",
            later,
            no_otp,
        ]
    );
    assert_eq!(
        of_iam("shop", 3),
        [
            "IAM           shop, logins of all other domains",
            "IAM adapter   keycloak",
            "capabilities  sessions at the IAM, current permissions, detects disabled and deleted accounts, \
             back-channel logout by tokens of the type logout+jwt, one-time passwords",
        ]
    );
}

#[test]
fn online_check_probes_the_iam_and_runs_a_session_of_a_test_account() {
    let ended = online(&[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.contains("  IAM           responds"),
        "{}",
        ended.out
    );
    assert!(
        ended.out.contains("login         not tried"),
        "{}",
        ended.out
    );

    let ended = online(&ACCOUNT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for step in [
        "IAM           responds",
        "login         ok",
        "exchange      ok",
        "logout        ok",
    ] {
        assert!(ended.out.contains(step), "{step}: {}", ended.out);
    }
    assert!(ended.out.ends_with("\nconfiguration ok\n"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_client_without_a_role_of_the_test_account_is_named() {
    let iam = ScriptedUpstream::keycloak().await;
    refuses_probe_and_made_up_account(&iam);
    let client = [("iam.keycloak.permissions_client", "shop-apii")];
    let url = iam.url();
    let settings = [&scripted_keycloak_settings(&url)[..], &client, &ACCOUNT].concat();
    let ended = online(&settings);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = "  permissions   none of the test account: iam.keycloak.permissions_client: there is no \
                client \"shop-apii\", or the account has none of its roles\n";
    assert!(ended.out.contains(line), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_exchange_of_the_test_account_leaves_no_session_at_the_iam() {
    let iam = ScriptedUpstream::keycloak().await;
    refuses_probe_and_made_up_account(&iam);
    let nothing_granted = [
        ("iam.keycloak.permissions_client", "shop-apii"),
        ("token.refuse_empty_scope", "true"),
    ];
    let url = iam.url();
    let iam_settings = scripted_keycloak_settings(&url);
    let ended = online(&[&iam_settings[..], &nothing_granted, &ACCOUNT].concat());
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.out.contains("login         ok"), "{}", ended.out);
    assert!(!ended.out.contains("exchange      ok"), "{}", ended.out);
    assert!(ended.out.contains("logout        ok"), "{}", ended.out);
    assert_eq!(iam.requests_to(LOGOUT).len(), 1);
}

#[test]
fn online_check_explains_scopes_of_the_test_account() {
    let scopes = ["urn:shop:orders:order:read", "urn:shop:orders:order:delete"];
    let arguments = [&["check", "--online", "--explain"], &scopes[..]].concat();
    let ended = GATEWAY.run(&arguments, &ACCOUNT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<_> = ended.out.lines().map(str::trim).collect();
    for (scope, explanation) in scopes.iter().zip(["granted: ", "not granted: not among"]) {
        let at = lines.iter().position(|line| line == scope);
        let line = at.and_then(|at| lines.get(at + 1)).copied();
        assert!(
            line.is_some_and(|line| line.starts_with(explanation)),
            "{scope}: {}",
            ended.out
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explained_scopes_need_no_second_session() {
    let iam = ScriptedUpstream::keycloak().await;
    refuses_probe_and_made_up_account(&iam);
    let ended = GATEWAY.run(
        &["check", "--online", "--explain", "canary:read"],
        &[&scripted_keycloak_settings(&iam.url())[..], &ACCOUNT].concat(),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("  canary:read\n"), "{}", ended.out);
    assert_eq!(iam.requests_to(LOGOUT).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_explanation_ends_by_its_deadline_and_leaves_no_session_at_the_iam() {
    let iam = ScriptedUpstream::keycloak().await;
    refuses_probe_and_made_up_account(&iam);
    // The login, whose result the exchange uses.
    iam.once(INTROSPECTION, Answer::json(200, active()));
    iam.on(INTROSPECTION, Answer::hanging());
    let deadline = [("upstream.introspection_deadline", "1s")];
    let url = iam.url();
    let settings = [&scripted_keycloak_settings(&url)[..], &deadline, &ACCOUNT].concat();
    let arguments = ["check", "--online", "--explain", "canary:read"];
    let ended = GATEWAY.run(&arguments, &settings);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    for line in [
        "  exchange      ok",
        "  logout        ok",
        "  permissions   the IAM did not respond within 1s\n",
    ] {
        assert!(ended.out.contains(line), "{line}: {}", ended.out);
    }
    assert_eq!(iam.requests_to(LOGOUT).len(), 1);
}

#[test]
fn wrong_password_of_the_test_account_is_reported_without_the_password() {
    let wrong = [ACCOUNT[0], (ACCOUNT[1].0, "canary-of-the-check")];
    let ended = online(&wrong);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(
        ended.out.contains("login         login refused: "),
        "{}",
        ended.out
    );
    assert!(!ended.everything().contains("canary"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn online_check_names_an_iam_whose_clock_differs() {
    let iam = ScriptedUpstream::keycloak().await;
    let wrong = inactive().with("Date", "Fri, 15 Jan 2016 08:00:00 GMT");
    iam.once(INTROSPECTION, wrong);
    for _ in 0..2 {
        iam.once(GRANT, refusal(401, "invalid_grant", "Invalid user"));
    }
    let ended = online(&scripted_keycloak_settings(&iam.url()));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let begin = "  clock         the clock of this replica is ";
    let end = " s ahead of the clock of the IAM keycloak";
    let is_named = |line: &str| line.starts_with(begin) && line.ends_with(end);
    assert!(ended.out.lines().any(is_named), "{}", ended.out);
    // The other checks are made.
    let refused = "refusal       ok, of a made-up account";
    assert!(ended.out.contains(refused), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_iam_that_fails_is_reported_with_its_name() {
    let closed_port = RefusingPort::start();
    let other_server = ScriptedUpstream::keycloak().await;
    other_server.on(DISCOVERY, Answer::html(404));
    let working = ScriptedUpstream::keycloak().await;
    working.on(INTROSPECTION, inactive());
    let urls = [
        ("closed", closed_port.url()),
        ("other", other_server.url()),
        ("working", working.url()),
    ];
    let mut variables = Vec::new();
    for (name, url) in &urls {
        for (key, value) in scripted_keycloak_settings(url) {
            let key = key.replace("iam.keycloak.", &format!("iam.{name}."));
            variables.push((key, value.to_owned()));
        }
        for (key, value) in [
            ("type", "keycloak"),
            ("subject_prefix", name),
            ("domains", name),
        ] {
            variables.push((format!("iam.{name}.{key}"), value.to_owned()));
        }
    }
    let ended = online(&[&borrowed(&variables)[..], &ACCOUNT].concat());
    assert_eq!(ended.code, Some(69), "{ended:?}");
    for line in [
        "IAM           closed the IAM cannot be reached",
        "IAM           other the IAM does not accept this gateway: unknown or disabled tenant",
        "IAM           working responds, as ",
    ] {
        assert!(ended.out.contains(line), "{line}: {}", ended.out);
    }
    assert!(!ended.out.contains("login  "), "{}", ended.out);
    assert!(working.requests_to(LOGOUT).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn check_calls_the_iam_only_with_online_and_ends_its_session() {
    let iam = ScriptedUpstream::keycloak().await;
    let ended = GATEWAY.run(
        &["check"],
        &[&scripted_keycloak_settings(&iam.url())[..], &ACCOUNT].concat(),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(iam.requests(), []);

    refuses_probe_and_made_up_account(&iam);
    let ended = online(&[&scripted_keycloak_settings(&iam.url())[..], &ACCOUNT].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!iam.requests_to(GRANT).is_empty());
    assert!(!iam.requests_to(INTROSPECTION).is_empty());
    assert_eq!(iam.requests_to(LOGOUT).len(), 1);
}

/// The IAM begins a session and then reports it as inactive, so the login fails.
#[tokio::test(flavor = "multi_thread")]
async fn session_of_a_failed_login_is_ended_before_the_check_exits() {
    let iam = ScriptedUpstream::keycloak().await;
    refuses_probe_and_made_up_account(&iam);
    iam.on(INTROSPECTION, inactive());
    let ended = online(&[&scripted_keycloak_settings(&iam.url())[..], &ACCOUNT].concat());
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.out.contains("login         "), "{}", ended.out);
    assert_eq!(iam.requests_to(LOGOUT).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn online_check_names_the_setting_without_which_a_wrong_password_is_a_fault() {
    let protocol = DJANGO_OAUTH_TOOLKIT;
    let iam = ScriptedUpstream::of(&protocol).await;
    iam.on(protocol.introspection, inactive()).on(
        protocol.token,
        refusal(400, "invalid_request", "Invalid user name or password."),
    );
    let settings = (protocol.settings)(&iam.url(), "a-secret-of-the-client");
    let settings = borrowed(&settings);
    let ended = online(&settings);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let named = "refusal       a made-up account is not refused: ";
    assert!(ended.out.contains(named), "{}", ended.out);
    let setting = r#"set refused_error = "invalid_request" if"#;
    assert!(ended.out.contains(setting), "{}", ended.out);

    let set = [("iam.oauth2.refused_error", "invalid_request")];
    let ended = online(&[&settings[..], &set].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refused = "refusal       ok, of a made-up account";
    assert!(ended.out.contains(refused), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn online_check_fails_if_a_made_up_account_can_log_in_and_ends_its_session() {
    let iam = ScriptedUpstream::keycloak().await;
    iam.once(INTROSPECTION, inactive());
    let ended = online(&scripted_keycloak_settings(&iam.url()));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let accepted = "refusal       a made-up account can log in";
    assert!(ended.out.contains(accepted), "{}", ended.out);
    assert_eq!(iam.requests_to(LOGOUT).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn online_check_without_a_test_account_names_a_revocation_endpoint_that_is_none() {
    let protocol = DJANGO_OAUTH_TOOLKIT;
    let iam = ScriptedUpstream::of(&protocol).await;
    iam.on(protocol.introspection, inactive())
        .on(protocol.token, refusal(400, "invalid_grant", "wrong"))
        .on("/o/revoke", Answer::html(404))
        .on("/o/xxxxxx", Answer::html(404));
    let mut settings = (protocol.settings)(&iam.url(), "a-secret-of-the-client");
    settings.push((
        "iam.oauth2.revocation_endpoint",
        format!("{}/o/revoke", iam.url()),
    ));
    let settings = borrowed(&settings);
    let ended = online(&settings);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let line = "  logout        the IAM does not accept this gateway: refused (status 404, as for a path \
                that does not exist; check revocation_endpoint)\n";
    assert!(ended.out.contains(line), "{}", ended.out);

    // Some servers refuse an unknown token.
    iam.on("/o/revoke", refusal(404, "invalid_token", "unknown"));
    let ended = online(&settings);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_that_the_response_about_the_test_account_does_not_have_is_named() {
    let protocol = DJANGO_OAUTH_TOOLKIT;
    for (changes, line) in [
        (
            vec![("iam.oauth2.permissions_claim", "scopess".to_owned())],
            "  permissions   none of the test account: iam.oauth2.permissions_claim: the IAM states no \
             \"scopess\", or the account has none",
        ),
        (
            vec![
                ("iam.oauth2.groups_claim", "groupss".to_owned()),
                ("permissions.source", "http".to_owned()),
            ],
            "  groups        none of the test account: iam.oauth2.groups_claim: the IAM states no \
             \"groupss\", or the account has none",
        ),
    ] {
        let iam = ScriptedUpstream::of(&protocol).await;
        iam.once(protocol.introspection, inactive())
            .on("/policy", Answer::json(200, json!({"result": ["a"]})));
        for _ in 0..2 {
            iam.once(protocol.token, refusal(400, "invalid_grant", "wrong"));
        }
        let mut settings = (protocol.settings)(&iam.url(), "a-secret-of-the-client");
        if changes.len() == 2 {
            settings.push(("permissions.url", format!("{}/policy", iam.url())));
        }
        settings.extend(changes);
        let ended = online(&[&borrowed(&settings)[..], &ACCOUNT].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains(line), "{}", ended.out);
    }
}
