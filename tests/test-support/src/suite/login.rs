//! `POST login`.

use iam_conformance::Account;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::{IamFixture, READ, unique_name};
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

pub async fn one_time_password_is_required_of_users_who_have_one_if_the_iam_takes_it(
    fixture: &IamFixture,
) {
    let (gateway, administrator) = (fixture.gateway(), &fixture.administrator);
    let user = fixture.user(&[READ]).await;
    let Account {
        email, password, ..
    } = &user;
    if !administrator.adapter().capabilities().one_time_password {
        let otp = SecretString::from("755224");
        let answer = gateway.log_in_with_otp(email, password, &otp).await;
        answer.is_error(400, "invalid_request");
        let why = "The member `otp` is not supported by the IAM of this domain.";
        assert_eq!(answer.json()["error_description"], why);
        gateway.log_in(email, password).await.session();
        return;
    }
    let otp = administrator.otp();
    gateway
        .log_in_with_otp(email, password, &otp)
        .await
        .session();
    let wrong = SecretString::from("Aa1!not-the-password");
    let expected = gateway.log_in(email, &wrong).await.text();

    let email = format!("{}@example.test", unique_name());
    administrator.create_user_with_otp(&email, password).await;
    let digits = otp.expose_secret().chars();
    let other: String = digits
        .map(|digit| if digit == '0' { '5' } else { '0' })
        .collect();
    for (why, password, otp) in [
        ("none", password, None),
        ("another", password, Some(&other.into())),
        ("wrong password", &wrong, Some(&otp)),
    ] {
        let answer = match otp {
            Some(otp) => gateway.log_in_with_otp(&email, password, otp).await,
            None => gateway.log_in(&email, password).await,
        };
        assert_eq!(answer.text(), expected, "{why}");
    }
    gateway
        .log_in_with_otp(&email, password, &otp)
        .await
        .session();
    let replayed = gateway.log_in_with_otp(&email, password, &otp).await;
    assert_eq!(replayed.text(), expected);
}

pub async fn invalid_one_time_password_is_described(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let password = user.password.expose_secret();
    for (otp, description) in [
        (json!(null), "The member `otp` must be a string."),
        (json!(755_224), "The member `otp` must be a string."),
        (json!(["755224"]), "The member `otp` must be a string."),
        (json!(""), "The member `otp` must not be empty."),
        (
            json!("7".repeat(65)),
            "The member `otp` is longer than 64 bytes.",
        ),
        (
            json!("755224\n"),
            "The member `otp` has a control character.",
        ),
    ] {
        let body = json!({ "email": user.email, "password": password, "otp": otp });
        let answer = gateway.post_json(LOGIN, &body).await;
        answer.is_error(400, "invalid_request");
        assert_eq!(answer.json()["error_description"], description);
    }
}
