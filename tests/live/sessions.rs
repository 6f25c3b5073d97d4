//! What becomes of a session at Keycloak and here, whoever ends it.

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
async fn a_session_deleted_by_an_administrator_is_over_and_the_users_others_are_not() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let gateway = fixture.gateway(&[&keys.settings()[..], &[SESSIONS_ALONE]].concat());
    let user = fixture.user(&[READ]).await;
    let deleted = session_of(&gateway, &user).await;
    let kept = session_of(&gateway, &user).await;
    let upstream = keys.unsealed(&deleted);
    fixture.administrator.end_session(&user, &upstream).await;
    // What is known is still fresh: nobody asks Keycloak.
    assert_eq!(gateway.exchange(&deleted, READ).await.token().scope, READ);
    fixture.outlive_freshness();
    let answer = gateway.exchange(&deleted, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(gateway.exchange(&kept, READ).await.token().scope, READ);
    assert_eq!(gateway.log_out(&deleted).await.status, 200);
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn keycloak_knows_a_session_by_its_users_address_and_not_by_what_the_user_said_it_was() {
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[("http.trusted_proxies", "127.0.0.1")]);
    // From within: over plain http, a realm that asks for TLS from outside refuses all others.
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
async fn a_user_logged_out_everywhere_has_no_session_left() {
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
async fn a_disabled_user_is_out_until_enabled_again() {
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
    // A session that was told to be over stays so, whatever Keycloak thinks of it later.
    let answer = gateway.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn a_deleted_user_is_out_and_may_still_log_out() {
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
async fn after_a_password_change_the_session_fares_as_keycloak_says() {
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
    let told = fixture.keycloak.introspect(&upstream.secret).await;
    let lives = told["active"].as_bool().expect("a word on the session");
    let answer = gateway.exchange(&session, READ).await;
    assert_eq!(answer.status, if lives { 200 } else { 401 }, "{told}");
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn a_logout_here_ends_that_session_at_keycloak_and_no_other() {
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
    // Known as fresh and yet refused: a logout here needs no time to be felt here.
    let answer = gateway.exchange(&ended, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(gateway.exchange(&kept, READ).await.status, 200);
    assert_eq!(gateway.log_out(&ended).await.status, 200);
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn a_session_expires_when_keycloak_says() {
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
    let told = fixture.keycloak.introspect(&upstream.secret).await;
    let at_keycloak = told["exp"].as_u64().expect("an expiry");
    let here = seconds(&session.expires_at);
    // Counted from the moment before Keycloak was asked, so never later than Keycloak's, and
    // earlier by no more than the login took.
    assert!(here <= at_keycloak, "{here} {at_keycloak}");
    assert!(at_keycloak - here <= after - before, "{here} {at_keycloak}");
    let verified = seconds(&session.verified_at);
    assert!((before..=after).contains(&verified), "{verified}");
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn introspection_keeps_no_session_alive() {
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
