//! Users who need one-time passwords.

use reqwest::Method;
use secrecy::SecretString;
use serde_json::{Value, json};
use test_support::client::Response;
use test_support::totp::SECRET_BASE32;

use crate::namespace::Namespace;

const ERIN: &str = "erin@example.test";
const PATH: &str = "/users/erin@example.test";

fn password() -> SecretString {
    "erin-pass".into()
}

/// A namespace with a user who needs one-time passwords.
async fn namespace() -> Namespace {
    let mock = Namespace::alone();
    let erin = json!({"email": ERIN, "password": "erin-pass", "totp_secret": SECRET_BASE32});
    let created = mock.post("/users", &erin).await;
    assert_eq!(created.status, 201, "{}", created.text());
    assert!(!created.text().contains(SECRET_BASE32));
    assert_eq!(created.json(), mock.read(PATH).await);
    mock
}

fn otp_of(user: &Value) -> SecretString {
    user["otp"].as_str().expect("a one-time password").into()
}

async fn otp(mock: &Namespace) -> SecretString {
    otp_of(&mock.read(PATH).await)
}

async fn log_in(mock: &Namespace, otp: &SecretString) -> Response {
    mock.log_in_with_otp(ERIN, &password(), otp).await
}

#[tokio::test]
async fn user_shows_the_one_time_password_of_the_clock_which_is_accepted_once() {
    let mock = namespace().await;
    let first = otp(&mock).await;
    mock.try_log_in(ERIN).await.is_error(401, "invalid_grant");
    log_in(&mock, &first).await.session();
    log_in(&mock, &first).await.is_error(401, "invalid_grant");
    mock.advance("30s").await;
    let users = mock.read("/users").await;
    let second = otp_of(&users["users"][2]);
    log_in(&mock, &second).await.session();
    assert!(users["users"][0].get("otp").is_none(), "{users}");
    // The journal says of it what it says of a wrong password.
    let journal = mock.read("/journal?operation=login").await;
    let reasons = journal["entries"].as_array().expect("entries").iter();
    let reasons: Vec<_> = reasons.map(|entry| &entry["reason"]).collect();
    let refused = json!("invalid_credentials");
    assert_eq!(reasons, [&refused, &Value::Null, &refused, &Value::Null]);
}

#[tokio::test]
async fn change_sets_another_secret_or_none() {
    let mock = namespace().await;
    let before = otp(&mock).await;
    let change = json!({"totp_secret": "JBSWY3DPEHPK3PXP"});
    let changed = mock.send_json(Method::PATCH, PATH, &change).await.json();
    log_in(&mock, &before).await.is_error(401, "invalid_grant");
    log_in(&mock, &otp_of(&changed)).await.session();
    for invalid in [json!(""), json!("canary!"), json!(271_828)] {
        let change = json!({"totp_secret": invalid, "state": "locked"});
        let answer = mock.send_json(Method::PATCH, PATH, &change).await;
        answer.is_error(400, "invalid_request");
        let description = answer.json()["error_description"].to_string();
        assert!(description.contains("totp_secret"), "{description}");
        assert!(!description.contains("canary") && !description.contains("271828"));
    }
    let change = json!({"totp_secret": null});
    let changed = mock.send_json(Method::PATCH, PATH, &change).await.json();
    assert_eq!(
        (&changed["state"], changed.get("otp")),
        (&json!("active"), None)
    );
    mock.try_log_in(ERIN).await.session();
}
