//! `POST login`.

use iam_conformance::{Account, AccountState};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::{IamFixture, READ, session_of, unique_name};
use crate::endpoints::LOGIN;

pub async fn login_returns_a_session_and_nothing_else(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let answer = gateway.log_in(&user.email, &user.password).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(
        answer.members(),
        ["expires_at", "session_id", "session_token", "verified_at"]
    );
    let session = answer.session();
    assert_eq!(session.session_id.len(), 22);
    let seconds = |time: &str| {
        assert!(time.ends_with("+00:00"), "no numeric offset: {time}");
        let time = time.parse::<Timestamp>().expect("RFC 3339").as_second();
        u64::try_from(time).expect("a time after 1970")
    };
    assert_eq!(seconds(&session.verified_at), fixture.now());
    assert!(seconds(&session.expires_at) > fixture.now());
}

pub async fn each_login_begins_a_new_session(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let one = session_of(&gateway, &user).await;
    let other = session_of(&gateway, &user).await;
    assert_ne!(one.session_id, other.session_id);
    assert_ne!(one.session_token, other.session_token);
    for session in [&one, &other] {
        assert_eq!(gateway.exchange(session, READ).await.token().scope, READ);
    }
}

pub async fn every_refused_login_has_the_same_response(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let wrong = SecretString::from("Aa1!not-the-password");
    let answer = gateway.log_in(&user.email, &wrong).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="auth""#);
    let expected = answer.text();

    let unrelated = format!("{}@example.test", unique_name());
    let empty = SecretString::from("");
    let mut others = vec![
        ("unknown", unrelated.clone(), user.password.clone()),
        ("unknown, empty password", unrelated, empty.clone()),
        ("empty password", user.email.clone(), empty),
    ];
    for state in fixture.administrator.account_states() {
        let kept_out = fixture.user(&[READ]).await;
        fixture.administrator.set_state(&kept_out, *state).await;
        let Account {
            email, password, ..
        } = kept_out;
        others.push(("kept out, wrong password", email.clone(), wrong.clone()));
        others.push(("kept out", email, password));
    }
    for (why, email, password) in others {
        let answer = gateway.log_in(&email, &password).await;
        assert_eq!(answer.text(), expected, "{why}");
    }
}

pub async fn reenabled_account_can_log_in(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    for state in fixture.administrator.account_states() {
        let user = fixture.user(&[READ]).await;
        fixture.administrator.set_state(&user, *state).await;
        let answer = gateway.log_in(&user.email, &user.password).await;
        answer.is_error(401, "invalid_grant");
        let active = AccountState::Active;
        fixture.administrator.set_state(&user, active).await;
        session_of(&gateway, &user).await;
    }
}

pub async fn password_is_compared_exactly(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    for (right, near) in [
        (" Aa1! spaces at the ends ", "Aa1! spaces at the ends"),
        ("Aa1!\"quoted\" \\u0041 {}", "Aa1!\"quoted\" A {}"),
        ("Aa1!pässwört-日本語-🔑", "Aa1!passwort-日本語-🔑"),
    ] {
        let user = fixture.user_with_password(right, &[]).await;
        session_of(&gateway, &user).await;
        let answer = gateway.log_in(&user.email, &near.into()).await;
        answer.is_error(401, "invalid_grant");
    }
}

pub async fn additional_members_of_a_login_have_no_effect(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let chosen = "A".repeat(22);
    let body = json!({
        "email": user.email,
        "password": user.password.expose_secret(),
        "session_id": chosen,
        "expires_at": "2099-01-01T00:00:00+00:00",
    });
    let session = gateway.post_json(LOGIN, &body).await.session();
    assert_ne!(session.session_id, chosen);
    assert!(!session.expires_at.starts_with("2099"));
}
