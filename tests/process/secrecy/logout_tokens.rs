//! Logout tokens, which can end sessions, and the keys that verify them.

use serde_json::{Value, json};
use test_support::endpoints::BACKCHANNEL_LOGOUT;
use test_support::logout_token::{claims, logout_token, signed};
use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{KEYS, SESSION, SUBJECT, jwt};
use test_support::secrecy::{PASSWORD, SecrecyFixture, UPSTREAM_TEXT};
use test_support::wire::{form, post};

use crate::GATEWAY;

const CANARY: &str = "canary-in-a-form-0123";

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_a_logout_token_is_written() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 2, &[]).await;
    let url = fixture.iam.url();
    fixture.add_secret("the IAM's id of a session", SESSION);
    fixture.add_secret("an id of a logout token", "canary-of-jti-");
    let (by_session, by_subject) = (json!({"sid": SESSION}), json!({"sub": SUBJECT}));

    let session = fixture.log_in(PASSWORD, 200);
    let token = logout_token(&url, "canary-of-jti-session", &by_session);
    fixture.send_logout_token(0, &token, 200);
    fixture.exchange(0, &session, 401);
    // A replay, and a replica that has not received the token.
    fixture.send_logout_token(0, &token, 400);
    fixture.exchange(1, &session, 200);
    let token = logout_token(&url, "canary-of-jti-subject", &by_subject);
    fixture.send_logout_token(1, &token, 200);
    fixture.exchange(1, &session, 401);

    for forged in forged(&url) {
        // As many as are verified before the sender is limited, and one more.
        fixture.send_logout_token(1, &forged, 400);
    }
    fixture.read_management();
    let written = fixture.end();
    for reason in ["a replay", "a wrong signature", "an unknown key", "a nonce"] {
        assert!(written.contains(reason), "{reason}");
    }
}

fn forged(url: &str) -> Vec<String> {
    let with = |name: &str, value: Value| {
        let mut claims = claims(url, "canary-of-jti-forged", &json!({"sid": SESSION}));
        claims[name] = value;
        claims
    };
    let good = signed("logout+jwt", &with("more", json!(CANARY)));
    let (text, signature) = good.rsplit_once('.').expect("a signature");
    let other = signed("logout+jwt", &with("more", json!("another")));
    let (_, signature_of_other) = other.rsplit_once('.').expect("a signature");
    vec![
        format!("{text}.{signature_of_other}"),
        jwt(&with("more", json!(CANARY))),
        signed("JWT", &with("more", json!(CANARY))),
        signed("logout+jwt", &with("iss", json!(CANARY))),
        signed("logout+jwt", &with("aud", json!(CANARY))),
        signed("logout+jwt", &with("nonce", json!(CANARY))),
        signed("logout+jwt", &with("iat", json!(CANARY))),
        good.replacen('e', "f", 1),
        // {"alg":"EdDSA","kid":"canary-in-a-form-0123","typ":"logout+jwt"}
        format!(
            "eyJhbGciOiJFZERTQSIsImtpZCI6ImNhbmFyeS1pbi1hLWZvcm0tMDEyMyIsInR5cCI6ImxvZ291dCtqd3QifQ.{}",
            text.split('.').nth(1).expect("claims").to_owned() + "." + signature
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_form_and_query_are_not_written() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &[]).await;
    fixture.add_secret("a form's value", CANARY);
    fixture.log_in(PASSWORD, 200);
    let token = logout_token(
        &fixture.iam.url(),
        "canary-in-a-form-0123",
        &json!({"sid": SESSION}),
    );
    fixture.add_secret("a logout token", &token);
    let query = format!("{BACKCHANNEL_LOGOUT}?logout_token={token}");
    for (request, status) in [
        (form(&query, ""), 400),
        (form(&query, &format!("logout_token={token}")), 400),
        (form(BACKCHANNEL_LOGOUT, CANARY), 400),
        (form(BACKCHANNEL_LOGOUT, &format!("token={token}")), 400),
        (
            form(
                BACKCHANNEL_LOGOUT,
                &format!("logout_token={token}&logout_token={CANARY}"),
            ),
            400,
        ),
        (
            form(
                BACKCHANNEL_LOGOUT,
                &format!("logout_token={}", CANARY.repeat(10_000)),
            ),
            413,
        ),
        (post(BACKCHANNEL_LOGOUT, &format!("\"{token}\"")), 415),
    ] {
        let answer = fixture.connect(0).send(&request).answer();
        assert_eq!(answer.status, status, "{answer:?}");
        fixture.record(&answer);
    }
    fixture.end();
}

/// Each with a new gateway, because unavailable keys are not fetched again at once.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_key_set_of_the_iam_is_not_written() {
    let key = |name: &str, value: &str| {
        let mut key =
            json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": "k"});
        key[name] = json!(value);
        Answer::json(200, json!({"keys": [key]}))
    };
    for (answer, status) in [
        (Answer::text(200, "text/plain", UPSTREAM_TEXT), 500),
        (Answer::text(503, "text/plain", UPSTREAM_TEXT), 500),
        (Answer::json(200, json!({"keys": UPSTREAM_TEXT})), 500),
        (key("x", UPSTREAM_TEXT), 500),
        (key("d", UPSTREAM_TEXT), 500),
        (
            Answer::redirect(302, &format!("http://{CANARY}.test/")),
            500,
        ),
    ] {
        let mut fixture = SecrecyFixture::start(GATEWAY, 1, &[]).await;
        fixture.add_secret("where the IAM wants to be asked", CANARY);
        fixture.log_in(PASSWORD, 200);
        fixture.iam.on(KEYS, answer);
        let token = logout_token(&fixture.iam.url(), CANARY, &json!({"sid": SESSION}));
        fixture.send_logout_token(0, &token, status);
        fixture.end();
    }
}
