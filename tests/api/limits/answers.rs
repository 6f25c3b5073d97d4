//! Responses to too many attempts, with the default settings.

use std::sync::Arc;

use secrecy::SecretString;
use serde_json::json;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::gateway::{TestGateway, manual_clock};
use test_support::scripted_iam::ScriptedIam;
use test_support::suite::IamFixture;

use super::{ALICE, RIGHT, Scenario, is_stopped};

#[tokio::test]
async fn too_many_failed_logins_of_an_account_are_a_429_whether_or_not_it_exists() {
    let fixture = Scenario::new(&[]);
    let mut responses = Vec::new();
    for email in [ALICE, "unknown@example.test"] {
        for _ in 0..10 {
            let answer = fixture.log_in_as(email, "wrong").await;
            answer.is_error(401, "invalid_grant");
        }
        // The right password does not bypass the limit, and is not checked.
        let answer = fixture.log_in_as(email, RIGHT).await;
        is_stopped(&answer, "30");
        responses.push(answer.text());
        assert_eq!(fixture.take_logins().len(), 10);
    }
    assert_eq!(responses[0], responses[1]);
    fixture
        .clock
        .advance(std::time::Duration::from_millis(29_001));
    is_stopped(&fixture.log_in_as(ALICE, RIGHT).await, "1");
    fixture.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(fixture.log_in_as(ALICE, RIGHT).await.status, 200);
}

#[tokio::test]
async fn limited_address_is_refused_whatever_its_body() {
    let fixture = Scenario::new(&[]);
    for number in 0..100 {
        let answer = fixture
            .log_in_as(&format!("user{number}@example.test"), "")
            .await;
        answer.is_error(401, "invalid_grant");
    }
    is_stopped(&fixture.log_in_as(ALICE, RIGHT).await, "9");
    for body in ["[", "{\"email\":", "", &"[".repeat(16_000)] {
        is_stopped(&fixture.gateway.post(LOGIN, &[], body).await, "9");
    }
    assert_eq!(fixture.take_logins().len(), 0);
    // Only logins are limited: exchanges and logouts need a session.
    for path in [TOKEN, LOGOUT] {
        let answer = fixture.gateway.post_json(path, &json!({})).await;
        answer.is_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn invalid_login_request_does_not_count() {
    let fixture = Scenario::new(&[]);
    for _ in 0..40 {
        for body in [
            json!([]),
            json!({ "email": ALICE }),
            json!({ "email": "alice", "password": "" }),
        ] {
            let answer = fixture.gateway.post_json(LOGIN, &body).await;
            answer.is_error(400, "invalid_request");
        }
    }
    assert_eq!(fixture.log_in_as(ALICE, RIGHT).await.status, 200);
}

#[tokio::test]
async fn refused_one_time_password_counts_like_a_refused_password() {
    let fixture = IamFixture::in_memory();
    let gateway = fixture.gateway_with(&[
        ("login_limits.account_failures", "2"),
        ("login_limits.address_failures", "4"),
    ]);
    let administrator = &fixture.administrator;
    let (right, otp) = (SecretString::from("erin-pass"), administrator.otp());
    for email in ["erin@example.test", "frank@example.test"] {
        administrator.create_user_with_otp(email, &right).await;
        let missing = gateway.log_in(email, &right).await;
        missing.is_error(401, "invalid_grant");
        let wrong = gateway.log_in_with_otp(email, &right, &"x".into()).await;
        wrong.is_error(401, "invalid_grant");
        let limited = gateway.log_in_with_otp(email, &right, &otp).await;
        limited.is_error(429, "temporarily_unavailable");
    }
    for (limit, refused) in [("account", 1), ("address", 1)] {
        let label = format!("limit=\"{limit}\"");
        let metric = gateway.metric("logins_throttled_total", &label);
        assert_eq!(metric.await, refused, "{limit}");
    }
}

#[tokio::test]
async fn one_time_password_at_an_iam_without_them_does_not_count_and_reaches_no_iam() {
    let iam = Arc::new(ScriptedIam {
        takes_otp: false,
        ..ScriptedIam::default()
    });
    let limits = [("login_limits.account_failures", "1")];
    let gateway = TestGateway::with_adapter(iam.clone(), manual_clock(), &limits);
    let (right, otp) = (SecretString::from(RIGHT), SecretString::from("755224"));
    for _ in 0..2 {
        let answer = gateway.log_in_with_otp(ALICE, &right, &otp).await;
        answer.is_error(400, "invalid_request");
        assert_eq!(
            answer.json()["error_description"],
            "The member `otp` is not supported by the IAM of this domain."
        );
    }
    assert!(iam.logins().is_empty());
    assert_eq!(gateway.log_in(ALICE, &right).await.status, 200);
}
