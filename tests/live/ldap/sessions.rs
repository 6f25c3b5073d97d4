//! Sessions that exist only in the session token: what ends them, and what does not.

use futures_util::future::join_all;
use iam_adapters::{Introspection, UpstreamSession};
use iam_conformance::{AccountState, Fixture as _};
use serde_json::{Value, json};
use test_support::keys::TestKeys;
use test_support::redis_server::Server;
use test_support::suite::{READ, session_of};
use test_support::wait::until;

use super::directory::{Directory, Kind};
use super::logins::{PASSWORD, user};
use super::secrecy::user_and_file;
use crate::fixture::log_in;
use crate::metrics::iam_calls;
use crate::process::Process;

pub(super) async fn adapter_passes_the_conformance_suite(directory: &Directory) {
    iam_conformance::all(directory).await;
}

async fn is_active(directory: &Directory, session: &UpstreamSession) -> bool {
    let introspected = directory.bare(&json!({})).introspect(session).await;
    matches!(
        introspected.expect("no fault"),
        Introspection::Active { .. }
    )
}

pub(super) async fn temporary_lock_ends_no_session_and_what_an_administrator_does_ends_it(
    directory: &Directory,
) {
    let adapter = directory.bare(&json!({}));
    let user = user(directory).await;
    let session = log_in(&*adapter, &user.email, PASSWORD)
        .await
        .expect("a login")
        .session;
    for _ in 0..3 {
        log_in(&*adapter, &user.email, "wrong")
            .await
            .expect_err("refused");
    }
    assert!(
        is_active(directory, &session).await,
        "locked by wrong passwords"
    );
    directory.set_state(&user, AccountState::Disabled).await;
    assert!(!is_active(directory, &session).await, "disabled");
    directory.set_state(&user, AccountState::Active).await;
    assert!(is_active(directory, &session).await, "enabled again");
    if directory.kind == Kind::Samba {
        let dn = directory.user_dn(&user.email);
        directory.replace(&dn, "accountExpires", &["1"]).await;
        assert!(!is_active(directory, &session).await, "expired");
        directory.replace(&dn, "accountExpires", &["0"]).await;
    }
    directory
        .set_password(&user, &"another-password".into())
        .await;
    assert!(
        !is_active(directory, &session).await,
        "the password was changed"
    );
    let session = log_in(&*adapter, &user.email, "another-password")
        .await
        .expect("a login")
        .session;
    assert!(is_active(directory, &session).await);
    directory.set_state(&user, AccountState::Incomplete).await;
    assert!(
        !is_active(directory, &session).await,
        "the password must be changed"
    );
    directory.set_state(&user, AccountState::Active).await;
    directory.delete_user(&user).await;
    assert!(!is_active(directory, &session).await, "deleted");
}

/// The second server is a copy of the first one, so it has the same ids.
pub(super) async fn server_that_lags_behind_ends_no_session(first: &Directory) {
    let user = user(first).await;
    let second = first.copy().await;
    let both = json!({"urls": [first.facts.url, second.facts.url]});
    // Certificates of both authorities.
    let both = first.bare(&first.trusting(&second, both));
    let session = log_in(&*both, &user.email, PASSWORD)
        .await
        .expect("a login")
        .session;
    first.delete_user(&user).await;
    let introspected = both.introspect(&session).await;
    assert!(
        matches!(introspected, Ok(Introspection::Active { .. })),
        "{introspected:?}"
    );
    second.delete_user(&user).await;
    assert_eq!(both.introspect(&session).await, Ok(Introspection::Inactive));
    drop(second);
    let introspected = both.introspect(&session).await;
    assert_eq!(
        introspected.map_err(|fault| fault.kind()),
        Err("unreachable"),
        "one server is not enough"
    );
}

/// The account had to change the password, which the second server does not know yet.
pub(super) async fn server_that_lags_behind_a_new_password_ends_no_session(first: &Directory) {
    let user = user(first).await;
    let second = first.copy().await;
    second.set_state(&user, AccountState::Incomplete).await;
    first.set_password(&user, &"another-password".into()).await;
    let session = log_in(&*first.bare(&json!({})), &user.email, "another-password")
        .await
        .expect("a login")
        .session;
    let introspected = async |urls: Value| {
        let settings = first.trusting(&second, json!({"urls": urls}));
        first.bare(&settings).introspect(&session).await
    };
    let both = introspected(json!([second.facts.url, first.facts.url])).await;
    assert!(matches!(both, Ok(Introspection::Active { .. })), "{both:?}");
    let alone = introspected(json!([second.facts.url])).await;
    assert_eq!(alone, Ok(Introspection::Inactive));
}

/// Some servers respond with an error, and others with nothing, as if there was no such user.
pub(super) async fn lost_rights_of_the_service_account_end_no_session_and_refuse_no_login(
    directory: &Directory,
) {
    let user = user(directory).await;
    let session = log_in(&*directory.bare(&json!({})), &user.email, PASSWORD).await;
    let session = session.expect("a login").session;
    let hidden = format!("OU=hidden,{}", directory.facts.base);
    let adapter = directory.bare(&json!({"users_base": hidden}));
    let introspected = adapter.introspect(&session).await;
    assert_eq!(
        introspected.map_err(|fault| fault.kind()),
        Err("misconfigured")
    );
    adapter.probe().await.expect_err("a fault");
    let login = log_in(&*adapter, &user.email, PASSWORD).await;
    assert_eq!(
        login.map_err(|fault| fault.kind()).err(),
        Some("misconfigured")
    );
}

/// Their ids would fill the memory.
pub(super) async fn connection_keeps_nothing_of_searches_that_have_ended(directory: &Directory) {
    let adapter = directory.bare(&json!({}));
    let user = user(directory).await;
    let session = log_in(&*adapter, &user.email, PASSWORD).await;
    let session = session.expect("a login").session;
    let mut sizes = Vec::new();
    for _ in 0..2 {
        for _ in 0..50 {
            adapter.introspect(&session).await.expect("no fault");
            adapter.probe().await.expect("no fault");
        }
        // It has the ids of the operations of the connection.
        let shown = format!("{adapter:?}");
        assert!(shown.contains("msgmap"), "{shown}");
        sizes.push(shown.len());
    }
    assert!(sizes[1] < sizes[0] + 100, "{sizes:?}");
}

pub(super) async fn groups_within_groups_are_found_and_long_answers_are_read_in_pages_at_the_same_time(
    directory: &Directory,
) {
    let user = user(directory).await;
    let dn = directory.user_dn(&user.email);
    for number in 0..600 {
        let name = format!("group-{number}");
        directory.create_group(&name).await;
        directory.change_members(&name, &dn, true).await;
    }
    directory.create_group("team").await;
    directory.create_group("company").await;
    directory.change_members("team", &dn, true).await;
    let team = directory.group_dn("team");
    let company = directory.group_dn("company");
    directory.change_members("company", &team, true).await;
    // A circle ends.
    directory.change_members("team", &company, true).await;
    let groups_base = format!("ou=groups,{}", directory.facts.base);
    let nested = directory.bare(&json!({"groups_base": groups_base}));
    let login = log_in(&*nested, &user.email, PASSWORD).await;
    let login = login.expect("a login");
    let groups = login.groups.expect("groups");
    assert_eq!(groups.len(), 602);
    assert!(
        groups.contains(&team) && groups.contains(&company),
        "{groups:?}"
    );
    let introspections = (0..8).map(|_| nested.introspect(&login.session));
    for introspected in join_all(introspections).await {
        let Ok(Introspection::Active { groups, .. }) = introspected else {
            panic!("{introspected:?}")
        };
        assert_eq!(groups.expect("groups").len(), 602);
    }
    let direct = log_in(&*directory.bare(&json!({})), &user.email, PASSWORD).await;
    let groups = direct.expect("a login").groups.expect("groups");
    assert!(groups.contains(&team));
    // Its plug-in makes members of a group members of what contains it.
    let is_transitive = directory.kind == Kind::DirectoryServer389;
    assert_eq!(groups.contains(&company), is_transitive);
}

pub(super) async fn groups_can_be_ten_deep_within_each_other_and_no_deeper(directory: &Directory) {
    let user = user(directory).await;
    let groups_base = format!("ou=groups,{}", directory.facts.base);
    let adapter = directory.bare(&json!({"groups_base": groups_base}));
    let mut outermost = directory.user_dn(&user.email);
    for level in 1..=11 {
        let name = format!("level-{level}");
        directory.create_group(&name).await;
        directory.change_members(&name, &outermost, true).await;
        outermost = directory.group_dn(&name);
        let login = log_in(&*adapter, &user.email, PASSWORD).await;
        if level <= 10 {
            let groups = login.expect("a login").groups.expect("groups");
            assert_eq!(groups.len(), level, "{groups:?}");
            assert!(groups.contains(&outermost), "{groups:?}");
        } else {
            let fault = login.expect_err("a fault");
            assert!(fault.to_string().contains("deeper than 10"), "{fault}");
        }
    }
}

/// A part of the groups would be a wrong answer.
pub(super) async fn size_limit_that_is_too_small_is_named(directory: &Directory) {
    let user = user(directory).await;
    let dn = directory.user_dn(&user.email);
    for name in ["one", "two", "three"] {
        directory.create_group(name).await;
        directory.change_members(name, &dn, true).await;
    }
    let base = &directory.facts.base;
    // The server returns two entries at most to this one.
    let limited = format!("cn=limited,ou=services,{base}");
    let attributes: &[(&str, &[&str])] = &[
        ("objectClass", &["person"]),
        ("cn", &["limited"]),
        ("sn", &["limited"]),
        ("userPassword", &[PASSWORD]),
    ];
    directory.add(&limited, attributes).await;
    let adapter = directory.bare(&json!({
        "bind_dn": limited,
        "bind_password": PASSWORD,
        "groups_base": format!("ou=groups,{base}"),
    }));
    let login = log_in(&*adapter, &user.email, PASSWORD).await;
    let fault = login.expect_err("a fault");
    assert!(
        fault.to_string().contains("raise its size limit"),
        "{fault}"
    );
}

/// Its directory has no sessions, so only the other replica knows of a logout.
pub(super) async fn logout_has_an_effect_at_every_replica(directory: &Directory) {
    let Some(redis) = Server::start() else {
        return;
    };
    let (user, file) = user_and_file(directory).await;
    let (keys, redis_url) = (TestKeys::new(), redis.url());
    let settings = [
        &keys.settings()[..],
        &[
            ("AUTH_GATEWAY_CONFIG", file.as_str()),
            ("redis.url", &redis_url),
        ],
    ]
    .concat();
    let [one, other] = [
        Process::start_and_probe(&settings).await,
        Process::start_and_probe(&settings).await,
    ];
    let session = session_of(&one.client, &user).await;
    until("both replicas to have read the revocations", async || {
        one.client.exchange(&session, READ).await.status == 200
            && other.client.exchange(&session, READ).await.status == 200
    })
    .await;
    assert_eq!(one.client.log_out(&session).await.status, 200);
    assert_eq!(
        iam_calls(one.management, "logout").await,
        0,
        "the directory was not called"
    );
    until("the logout to reach the other replica", async || {
        other.client.exchange(&session, READ).await.status == 401
    })
    .await;
}

pub(super) async fn connection_is_made_again_after_a_restart(directory: &Directory) {
    let adapter = directory.bare(&json!({}));
    let user = user(directory).await;
    let session = log_in(&*adapter, &user.email, PASSWORD).await;
    let session = session.expect("a login").session;
    directory.kill();
    let unreachable = adapter.introspect(&session).await;
    assert_eq!(
        unreachable.map_err(|fault| fault.kind()),
        Err("unreachable")
    );
    directory.start_again().await;
    let introspected = adapter.introspect(&session).await;
    assert!(
        matches!(introspected, Ok(Introspection::Active { .. })),
        "{introspected:?}"
    );
}

/// No failed search for groups is taken for "no groups", which would take all permissions. 389 Directory Server
/// returns no error for a base that the service account may not see.
pub(super) async fn groups_that_cannot_be_read_are_a_fault(directory: &Directory) {
    let user = user(directory).await;
    let session = log_in(&*directory.bare(&json!({})), &user.email, PASSWORD).await;
    let session = session.expect("a login").session;
    for place in ["nowhere", "hidden"] {
        let base = format!("OU={place},{}", directory.facts.base);
        let adapter = directory.bare(&json!({"groups_base": base}));
        let login = log_in(&*adapter, &user.email, PASSWORD).await;
        assert_eq!(
            login.map_err(|fault| fault.kind()).err(),
            Some("misconfigured"),
            "{place}"
        );
        let introspected = adapter.introspect(&session).await;
        assert_eq!(
            introspected.map_err(|fault| fault.kind()),
            Err("misconfigured"),
            "{place}"
        );
    }
}
