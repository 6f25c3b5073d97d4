//! Logins: what each response of the server means, and what a wrong setting is called.

use futures_util::FutureExt as _;
use iam_adapters::{IamError, Misconfiguration, Permissions, Refusal};
use iam_conformance::{Account, AccountState, Fixture as _};
use serde_json::{Value, json};
use test_support::suite::unique_name;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::directory::{Directory, Kind};
use crate::fixture::log_in;

pub(super) async fn user(directory: &Directory) -> Account {
    let email = format!("{}@example.test", unique_name());
    let subject = directory
        .create_user(&email, &PASSWORD.into(), &Permissions::default())
        .await;
    Account {
        email,
        password: PASSWORD.into(),
        subject,
    }
}

pub(super) const PASSWORD: &str = "Aa1! p\u{e4}ss ";

fn is_refused<T>(login: &Result<T, IamError>, refusal: Refusal) -> bool {
    matches!(login, Err(IamError::Refused(found)) if *found == refusal)
}

pub(super) async fn refusal_of_each_state_has_its_own_reason(directory: &Directory) {
    let adapter = directory.bare(&json!({}));
    let user = user(directory).await;
    for (state, refusal) in [
        (AccountState::Disabled, Refusal::Disabled),
        (AccountState::Incomplete, Refusal::Incomplete),
        (AccountState::Locked, Refusal::Locked),
    ] {
        directory.set_state(&user, state).await;
        let login = log_in(&*adapter, &user.email, PASSWORD).await;
        assert!(is_refused(&login, refusal), "{state:?}");
    }
    directory.set_state(&user, AccountState::Active).await;
    directory.lock_by_wrong_passwords(&user).await;
    let login = log_in(&*adapter, &user.email, PASSWORD).await;
    assert!(
        is_refused(&login, Refusal::Locked),
        "by three wrong passwords"
    );
    let login = log_in(&*adapter, "unknown@example.test", PASSWORD).await;
    assert!(is_refused(&login, Refusal::InvalidCredentials));
}

/// The filter would match every user, some users or no user, without the escapes of RFC 4515.
pub(super) async fn address_is_never_a_pattern(directory: &Directory) {
    let adapter = directory.bare(&json!({}));
    user(directory).await;
    for email in [
        "*@example.test",
        "*)(mail=*@example.test",
        "x)(|(mail=*@example.test",
        "\\2a@example.test",
        "(@example.test",
        ")@example.test",
        "\\@example.test",
        "*@*",
    ] {
        let login = log_in(&*adapter, email, PASSWORD).await;
        assert!(is_refused(&login, Refusal::InvalidCredentials), "{email}");
    }
}

pub(super) async fn address_of_two_entries_is_a_fault_and_no_login(directory: &Directory) {
    let (one, other) = (user(directory).await, user(directory).await);
    directory
        .replace(&directory.user_dn(&other.email), "mail", &[&one.email])
        .await;
    let adapter = directory.bare(&json!({"email_attribute": "mail"}));
    let login = log_in(&*adapter, &one.email, PASSWORD).await;
    let fault = login.expect_err("a fault");
    assert_eq!(fault.kind(), "unreadable");
    assert!(
        fault.to_string().contains("more than 1 entries match"),
        "{fault}"
    );
}

pub(super) async fn every_kind_of_connection_works(directory: &Directory) {
    let facts = &directory.facts;
    for settings in [
        json!({"urls": [facts.plain_url]}),
        json!({"urls": [facts.plain_url], "start_tls": true}),
        json!({"urls": [facts.socket_url]}),
    ] {
        works_with(directory, settings).await;
    }
}

pub(super) async fn first_server_that_responds_is_used(directory: &Directory) {
    works_with(
        directory,
        json!({"urls": ["ldaps://127.0.0.1:1", directory.facts.url]}),
    )
    .await;
}

/// The first server accepts connections and sends nothing, so the second one is used. After a call that was cancelled while it
/// waited for the first one, the next call begins with the second.
pub(super) async fn server_that_responds_to_nothing_is_left(directory: &Directory) {
    let with_silent = async || {
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("ldap://{}", silent.local_addr().expect("an address"));
        (silent, json!({"urls": [url, directory.facts.url]}))
    };
    let (_silent, settings) = with_silent().await;
    works_with(directory, settings).await;
    let (silent, settings) = with_silent().await;
    let adapter = directory.bare(&settings);
    let _kept = tokio::select! {
        probed = adapter.probe() => panic!("{probed:?}"),
        accepted = silent.accept() => accepted.expect("a connection"),
    };
    assert_eq!(adapter.probe().await, Ok(()));
    assert!(silent.accept().now_or_never().is_none());
}

async fn works_with(directory: &Directory, settings: Value) {
    let user = user(directory).await;
    let adapter = directory.bare(&settings);
    assert_eq!(adapter.probe().await, Ok(()), "{settings}");
    let login = log_in(&*adapter, &user.email, PASSWORD).await;
    let session = login
        .unwrap_or_else(|fault| panic!("{settings}: {fault:#}"))
        .session;
    assert_eq!(session.subject, user.subject);
}

/// The first server is behind a proxy that accepts one connection alone. The second one does not have the new password
/// yet.
pub(super) async fn login_binds_at_the_server_of_the_entry_or_fails(first: &Directory) {
    let user = user(first).await;
    let second = first.copy().await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("ldaps://{}", proxy.local_addr().expect("an address"));
    let server = first.facts.url.replace("ldaps://", "");
    tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.expect("a connection");
        drop(proxy);
        let mut server = TcpStream::connect(server).await.expect("a connection");
        let _ = copy_bidirectional(&mut client, &mut server).await;
    });
    let both = json!({"urls": [url, second.facts.url]});
    let adapter = first.bare(&first.trusting(&second, both));
    assert_eq!(adapter.probe().await, Ok(()));
    first.set_password(&user, &"another-password".into()).await;
    let login = log_in(&*adapter, &user.email, PASSWORD).await;
    assert_eq!(
        login.map_err(|fault| fault.kind()).err(),
        Some("unreachable")
    );
    // The next one is at the second server.
    let login = log_in(&*adapter, &user.email, PASSWORD).await;
    assert_eq!(login.expect("a login").session.subject, user.subject);
}

pub(super) async fn locked_service_account_is_named(directory: &Directory) {
    for _ in 0..4 {
        let wrong = directory.bare(&json!({"bind_password": "wrong"}));
        wrong.probe().await.expect_err("a fault");
    }
    let probed = directory.bare(&json!({})).probe().await;
    let fault = probed.expect_err("a fault");
    let what = Misconfiguration::ClientSecret;
    assert!(
        matches!(&fault, IamError::Misconfigured { what: found, .. } if *found == what),
        "{fault:#}"
    );
}

pub(super) async fn service_account_that_must_change_its_password_is_named(directory: &Directory) {
    directory
        .replace("cn=config", "passwordMustChange", &["on"])
        .await;
    let facts = &directory.facts;
    directory
        .replace(&facts.bind_dn, "userPassword", &[&facts.bind_password])
        .await;
    let probed = directory.bare(&json!({})).probe().await;
    let fault = probed.expect_err("a fault").to_string();
    assert!(
        fault.contains("whether its password must be changed"),
        "{fault}"
    );
}

pub(super) async fn each_wrong_setting_is_named(directory: &Directory) {
    let facts = &directory.facts;
    let (nowhere, hidden) = (
        format!("OU=nowhere,{}", facts.base),
        format!("OU=hidden,{}", facts.base),
    );
    let [tls, account, other] = [
        Misconfiguration::Tls,
        Misconfiguration::ClientSecret,
        Misconfiguration::Other,
    ]
    .map(Some);
    let without_tls = facts.plain_url.replace("ldap:", "ldaps:");
    let closed = "the connection failed (127.0.0.1, one of urls)";
    let mut cases = vec![
        (json!({"urls": ["ldaps://127.0.0.1:1"]}), None, closed),
        (json!({"ca_file": null}), tls, "check ca_file"),
        (json!({"urls": [without_tls]}), None, "without TLS"),
    ];
    for (key, value, what, text) in [
        ("bind_password", "wrong", account, "bind_password"),
        ("bind_dn", "cn=unknown", account, "bind_dn"),
        ("bind_dn", "no DN", account, "bind_dn"),
        ("users_base", &*nowhere, other, "users_base"),
        ("users_base", &hidden, other, "users_base"),
        ("users_base", "no DN", other, "users_base"),
        ("groups_base", &nowhere, other, "groups_base"),
        (
            "users_filter",
            "(objectClass=device)",
            other,
            "check users_filter",
        ),
        ("email_attribute", "seeAlso", other, "check email_attribute"),
        (
            "subject_attribute",
            "seeAlso",
            other,
            "check subject_attribute",
        ),
        (
            "password_changed_attribute",
            "pwdChangedTimes",
            other,
            "check password_changed_attribute",
        ),
    ] {
        cases.push((json!({key: value}), what, text));
    }
    // The first name is `cn`.
    let claims = json!({"claims": {"name": {"member": "commonName"}}});
    cases.push((claims, other, "commonName: check claims"));
    // Active Directory has no such control.
    if directory.kind == Kind::Samba {
        let with_control = json!({"password_policy": true});
        cases.push((with_control, other, "password_policy"));
    }
    if let Some(unnamed) = directory.unnamed_url() {
        cases.push((json!({"urls": [unnamed]}), tls, "another host name"));
    }
    for (settings, expected, text) in cases {
        let probed = directory.bare(&settings).probe().await;
        let Err(fault) = probed else {
            panic!("no fault: {settings}")
        };
        let found = match &fault {
            IamError::Misconfigured { what, .. } => Some(*what),
            fault => {
                assert_eq!(fault.kind(), "unreachable", "{settings}: {fault:#}");
                None
            }
        };
        assert_eq!(found, expected, "{settings}: {fault:#}");
        assert!(format!("{fault:#}").contains(text), "{settings}: {fault:#}");
    }
    let user = user(directory).await;
    let attribute = directory.bare(&json!({"subject_attribute": "seeAlso"}));
    let fault = log_in(&*attribute, &user.email, PASSWORD)
        .await
        .expect_err("a fault");
    assert!(
        fault.to_string().contains("subject_attribute seeAlso"),
        "{fault}"
    );
}
