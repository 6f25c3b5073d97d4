//! Sessions at Keycloak and at the gateway, and every way in which they end.

use std::time::{SystemTime, UNIX_EPOCH};

use iam_conformance::{AccountState, Fixture as _};
use reqwest::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use test_support::endpoints::LOGIN;
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::{READ, session_of, unique_name};

use crate::fixture::{LONG_DEADLINES, LiveFixture, SESSIONS_ALONE, seconds};

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn session_deleted_by_an_administrator_ends_after_the_freshness_and_other_sessions_stay() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let gateway = fixture.gateway(&[&keys.settings()[..], &[SESSIONS_ALONE]].concat());
    let user = fixture.user(&[READ]).await;
    let deleted = session_of(&gateway, &user).await;
    let kept = session_of(&gateway, &user).await;
    let upstream = keys.unsealed(&deleted);
    fixture.administrator.end_session(&user, &upstream).await;
    // Cached data is still fresh, so Keycloak is not called.
    assert_eq!(gateway.exchange(&deleted, READ).await.token().scope, READ);
    fixture.outlive_freshness();
    let answer = gateway.exchange(&deleted, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(gateway.exchange(&kept, READ).await.token().scope, READ);
    assert_eq!(gateway.log_out(&deleted).await.status, 200);
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn keycloak_receives_the_client_address_of_the_trusted_proxy_and_not_of_the_user() {
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[("http.trusted_proxies", "127.0.0.1")]);
    // Private addresses: over plain http, a realm that requires TLS for external requests refuses
    // others.
    for (forwarded, address) in [
        ("10.1.1.1, 10.20.30.40", "10.20.30.40"),
        ("10.20.30.41:4711", "10.20.30.41"),
        ("10.20.30.40, unknown", "127.0.0.1"),
    ] {
        let user = fixture.user(&[READ]).await;
        let password = user.password.expose_secret();
        let body = json!({ "email": user.email, "password": password }).to_string();
        let headers = [("x-forwarded-for", forwarded)];
        gateway.post(LOGIN, &headers, body).await.session();
        let path = ["users", user.subject.as_str(), "sessions"];
        let sessions = fixture.administrator.api.get(&path).await;
        assert_eq!(sessions[0]["ipAddress"], address, "{sessions}");
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn logout_of_all_sessions_by_an_administrator_ends_them_after_the_freshness() {
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[SESSIONS_ALONE]);
    let (user, neighbour) = (fixture.user(&[READ]).await, fixture.user(&[READ]).await);
    let sessions = [
        session_of(&gateway, &user).await,
        session_of(&gateway, &user).await,
    ];
    let neighbours = session_of(&gateway, &neighbour).await;
    fixture.administrator.end_sessions_of(&user).await;
    fixture.outlive_freshness();
    for session in &sessions {
        let answer = gateway.exchange(session, READ).await;
        answer.is_error(401, "invalid_grant");
    }
    assert_eq!(gateway.exchange(&neighbours, READ).await.status, 200);
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn disabled_user_is_refused_until_enabled_again() {
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[SESSIONS_ALONE]);
    let user = fixture.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let disabled = AccountState::Disabled;
    fixture.administrator.set_state(&user, disabled).await;
    fixture.outlive_freshness();
    let answer = gateway.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    let answer = gateway.log_in(&user.email, &user.password).await;
    answer.is_error(401, "invalid_grant");
    let active = AccountState::Active;
    fixture.administrator.set_state(&user, active).await;
    let again = session_of(&gateway, &user).await;
    assert_eq!(gateway.exchange(&again, READ).await.token().scope, READ);
    // A session that was reported as inactive stays refused, whatever Keycloak reports later.
    let answer = gateway.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn deleted_user_is_refused_and_can_still_log_out() {
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[SESSIONS_ALONE]);
    let user = fixture.user(&[READ]).await;
    let seen = session_of(&gateway, &user).await;
    let unseen = session_of(&gateway, &user).await;
    fixture.administrator.delete_user(&user).await;
    let answer = gateway.log_in(&user.email, &user.password).await;
    answer.is_error(401, "invalid_grant");
    fixture.outlive_freshness();
    let answer = gateway.exchange(&seen, READ).await;
    answer.is_error(401, "invalid_grant");
    for session in [&seen, &unseen] {
        assert_eq!(gateway.log_out(session).await.status, 200);
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn after_a_password_change_the_session_is_as_active_as_at_keycloak() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let gateway = fixture.gateway(&[&keys.settings()[..], &[SESSIONS_ALONE]].concat());
    let user = fixture.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let new = SecretString::from(format!("Aa1!{}", unique_name()));
    fixture.administrator.set_password(&user, &new).await;
    let answer = gateway.log_in(&user.email, &user.password).await;
    answer.is_error(401, "invalid_grant");
    gateway.log_in(&user.email, &new).await.session();
    fixture.outlive_freshness();
    let upstream = keys.unsealed(&session);
    let introspection = fixture.keycloak.introspect(&upstream.secret).await;
    let active = introspection["active"].as_bool().expect("a boolean");
    let answer = gateway.exchange(&session, READ).await;
    assert_eq!(
        answer.status,
        if active { 200 } else { 401 },
        "{introspection}"
    );
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn logout_ends_that_session_at_keycloak_and_no_other() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let gateway = fixture.gateway(&[&keys.settings()[..], &[SESSIONS_ALONE]].concat());
    let user = fixture.user(&[READ]).await;
    let ended = session_of(&gateway, &user).await;
    let kept = session_of(&gateway, &user).await;
    let (at_end, at_kept) = (keys.unsealed(&ended), keys.unsealed(&kept));
    let active = async |secret| fixture.keycloak.introspect(secret).await["active"].clone();
    assert_eq!(active(&at_end.secret).await, true);
    assert_eq!(gateway.log_out(&ended).await.status, 200);
    assert_eq!(active(&at_end.secret).await, false);
    assert_eq!(active(&at_kept.secret).await, true);
    let left = fixture.administrator.sessions_of(&user.subject).await;
    assert_eq!(left, [at_kept.id].into());
    // The gateway refuses the session although its cached data is fresh.
    let answer = gateway.exchange(&ended, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(gateway.exchange(&kept, READ).await.status, 200);
    assert_eq!(gateway.log_out(&ended).await.status, 200);
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn session_expires_at_the_time_of_keycloak() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let settings = [
        &fixture.keycloak.settings()[..],
        &LONG_DEADLINES,
        &keys.settings(),
    ]
    .concat();
    let gateway = TestGateway::start(&settings);
    let user = fixture.user(&[]).await;
    let before = now();
    let session = session_of(&gateway, &user).await;
    let after = now();
    let upstream = keys.unsealed(&session);
    let introspection = fixture.keycloak.introspect(&upstream.secret).await;
    let at_keycloak = introspection["exp"].as_u64().expect("an expiry");
    let here = seconds(&session.expires_at);
    // Counted from before the call to Keycloak: never later than at Keycloak, and earlier by the
    // duration of the login at most.
    assert!(here <= at_keycloak, "{here} {at_keycloak}");
    assert!(at_keycloak - here <= after - before, "{here} {at_keycloak}");
    let verified = seconds(&session.verified_at);
    assert!((before..=after).contains(&verified), "{verified}");
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn introspection_does_not_extend_a_session() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let gateway = fixture.gateway(&[&keys.settings()[..], &[SESSIONS_ALONE]].concat());
    let user = fixture.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let path = ["users", user.subject.as_str(), "sessions"];
    let before = fixture
        .administrator
        .api
        .done(Method::GET, &path, None)
        .await;
    for _ in 0..5 {
        fixture.outlive_freshness();
        assert_eq!(gateway.exchange(&session, READ).await.status, 200);
    }
    let after = fixture
        .administrator
        .api
        .done(Method::GET, &path, None)
        .await;
    assert_eq!(before.body, after.body);
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time after 1970").as_secs()
}
