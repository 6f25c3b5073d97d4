//! Responses to too many attempts, with the default settings.

use serde_json::json;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};

use super::{ALICE, LimitFixture, RIGHT, is_stopped};

#[tokio::test]
async fn too_many_failed_logins_of_an_account_are_a_429_whether_or_not_it_exists() {
    let fixture = LimitFixture::new(&[]);
    let mut responses = Vec::new();
    for email in [ALICE, "unknown@example.test"] {
        for _ in 0..10 {
            let answer = fixture.log_in(email, "wrong").await;
            answer.is_error(401, "invalid_grant");
        }
        // The right password does not bypass the limit, and is not checked.
        let answer = fixture.log_in(email, RIGHT).await;
        is_stopped(&answer, "30");
        responses.push(answer.text());
        assert_eq!(fixture.take_logins().len(), 10);
    }
    assert_eq!(responses[0], responses[1]);
    fixture
        .clock
        .advance(std::time::Duration::from_millis(29_001));
    is_stopped(&fixture.log_in(ALICE, RIGHT).await, "1");
    fixture.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(fixture.log_in(ALICE, RIGHT).await.status, 200);
}

#[tokio::test]
async fn known_network_is_not_limited_by_failures_from_other_networks() {
    let fixture = LimitFixture::new(&[("http.trusted_proxies", "127.0.0.1")]);
    let home = [("x-forwarded-for", "203.0.113.9")];
    let answer = fixture.log_in_with(&home, ALICE, RIGHT).await;
    assert_eq!(answer.status, 200);
    for number in 0..30 {
        let from = format!("198.51.100.{number}");
        let abroad = [("x-forwarded-for", from.as_str())];
        fixture.log_in_with(&abroad, ALICE, "wrong").await;
    }
    assert_eq!(fixture.take_logins().len(), 1 + 10);
    is_stopped(&fixture.log_in(ALICE, RIGHT).await, "30");
    let answer = fixture.log_in_with(&home, ALICE, RIGHT).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn account_that_is_known_at_a_limited_address_logs_in() {
    let fixture = LimitFixture::new(&[]);
    assert_eq!(fixture.log_in(ALICE, RIGHT).await.status, 200);
    for number in 0..100 {
        let answer = fixture
            .log_in(&format!("user{number}@example.test"), "")
            .await;
        answer.is_error(401, "invalid_grant");
    }
    is_stopped(&fixture.log_in("bob@example.test", "x").await, "9");
    assert_eq!(fixture.log_in(ALICE, RIGHT).await.status, 200);
}

#[tokio::test]
async fn limited_address_is_refused_whatever_its_body() {
    let fixture = LimitFixture::new(&[]);
    for number in 0..100 {
        let answer = fixture
            .log_in(&format!("user{number}@example.test"), "")
            .await;
        answer.is_error(401, "invalid_grant");
    }
    is_stopped(&fixture.log_in(ALICE, RIGHT).await, "9");
    for body in ["[", "{\"email\":", "", &"[".repeat(16_000)] {
        is_stopped(&fixture.gateway.post(LOGIN, &[], body).await, "9");
    }
    assert_eq!(fixture.take_logins(), []);
    // Only logins are limited: exchanges and logouts need a session.
    for path in [TOKEN, LOGOUT] {
        let answer = fixture.gateway.post_json(path, &json!({})).await;
        answer.is_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn invalid_login_request_does_not_count() {
    let fixture = LimitFixture::new(&[]);
    for _ in 0..150 {
        for body in [
            json!([]),
            json!({ "email": ALICE }),
            json!({ "email": "alice", "password": "" }),
        ] {
            let answer = fixture.gateway.post_json(LOGIN, &body).await;
            answer.is_error(400, "invalid_request");
        }
    }
    assert_eq!(fixture.log_in(ALICE, RIGHT).await.status, 200);
}

#[tokio::test]
async fn successful_logins_are_not_limited_by_default() {
    let fixture = LimitFixture::new(&[]);
    for _ in 0..300 {
        let session = fixture.log_in(ALICE, RIGHT).await.session();
        let answer = fixture.gateway.exchange(&session, "").await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn login_rate_at_the_iam_is_limited_by_the_setting() {
    let fixture = LimitFixture::new(&[("login_limits.rate", "5")]);
    for number in 0..50 {
        let answer = fixture
            .log_in(&format!("user{number}@example.test"), "x")
            .await;
        assert_eq!(answer.status, if number < 5 { 401 } else { 429 });
    }
    assert_eq!(fixture.take_logins().len(), 5);
    fixture.clock.advance(std::time::Duration::from_millis(200));
    fixture.log_in(ALICE, RIGHT).await.session();
    is_stopped(&fixture.log_in("bob@example.test", "x").await, "1");
}

#[tokio::test]
async fn concurrent_logins_of_an_account_begin_no_more_sessions_than_the_limit() {
    let fixture = LimitFixture::new(&[("login_limits.account_sessions_per_minute", "20")]);
    let logins = (0..60).map(|_| fixture.log_in(ALICE, RIGHT));
    let answers = futures_util::future::join_all(logins).await;
    let sessions = answers.iter().filter(|answer| answer.status == 200);
    assert_eq!(sessions.count(), 20);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        answer.is_error(429, "temporarily_unavailable");
    }
    // The IAM began them, and the gateway ended each.
    assert_eq!(fixture.take_logins().len(), 20);
    is_stopped(&fixture.log_in(ALICE, RIGHT).await, "3");
    fixture.clock.advance(std::time::Duration::from_secs(3));
    assert_eq!(fixture.log_in(ALICE, RIGHT).await.status, 200);
    is_stopped(&fixture.log_in(ALICE, RIGHT).await, "3");
}

#[tokio::test]
async fn of_160_failures_with_30_seconds_between_them_52_reach_the_iam() {
    let fixture = LimitFixture::new(&[]);
    for _ in 0..160 {
        fixture.log_in(ALICE, "wrong").await;
        fixture.clock.advance(std::time::Duration::from_secs(30));
    }
    assert_eq!(fixture.take_logins().len(), 52);
    let answer = fixture.log_in(ALICE, RIGHT).await;
    answer.is_error(429, "temporarily_unavailable");
}
