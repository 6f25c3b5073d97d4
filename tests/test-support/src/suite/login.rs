//! `POST login`.

use iam_conformance::Account;
use jiff::Timestamp;
use secrecy::SecretString;

use super::{IamFixture, READ, unique_name};

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
