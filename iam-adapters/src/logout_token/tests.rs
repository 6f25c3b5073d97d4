//! Tests of the verification of logout tokens.

mod algorithms;
mod altered;
mod fixture;
mod forged;
mod keys;
mod refused;
mod wycheproof;

use serde_json::json;
use test_support::json::without;

use super::*;
use crate::scripted_adapter::{CLIENT, ScriptedAdapter};
use fixture::{Fixture, SESSION, SUBJECT, claims, header};

#[tokio::test]
async fn token_in_keycloaks_format_names_the_ended_session() {
    let fixture = Fixture::new();
    let mut claims = claims(&fixture);
    claims["typ"] = json!("Logout");
    let notice = fixture.verify(&header(&fixture), &claims).await.unwrap();
    assert_eq!(notice.ended, Ended::Session(SESSION.to_owned()));
    assert_eq!(notice.issued_at, fixture.now());
}

#[tokio::test]
async fn token_without_sid_is_about_all_sessions_of_its_subject() {
    let fixture = Fixture::new();
    let of_all = without(claims(&fixture), "sid");
    let notice = fixture.verify(&header(&fixture), &of_all).await.unwrap();
    assert_eq!(notice.ended, Ended::AllOf(Subject::new(SUBJECT).unwrap()));
    let of_one = without(claims(&fixture), "sub");
    let notice = fixture.verify(&header(&fixture), &of_one).await.unwrap();
    assert_eq!(notice.ended, Ended::Session(SESSION.to_owned()));
}

#[tokio::test]
async fn optional_parts_of_the_specification_are_accepted() {
    let fixture = Fixture::new();
    let now = fixture.now();
    for (member, value) in [
        ("aud", json!(["another", CLIENT])),
        ("iat", json!(now - 120)),
        ("iat", json!(now + 60)),
        ("exp", json!(now + 1)),
        ("nbf", json!(now + 60)),
        (
            "events",
            json!({fixture::EVENT: {"more": [1]}, "urn:another": 1}),
        ),
        ("anything", json!({"else": null})),
    ] {
        let mut claims = claims(&fixture);
        claims[member] = value;
        let verified = fixture.verify(&header(&fixture), &claims).await;
        assert!(verified.is_ok(), "{claims} {verified:?}");
    }
    let without_expiry = without(claims(&fixture), "exp");
    fixture
        .verify(&header(&fixture), &without_expiry)
        .await
        .unwrap();
    for typ in ["Logout+JWT", "application/logout+jwt"] {
        let mut header = header(&fixture);
        header["typ"] = json!(typ);
        fixture.verify(&header, &claims(&fixture)).await.unwrap();
    }
}

#[test]
fn iam_without_logout_tokens_has_no_verifier() {
    let fixture = Fixture::new();
    let without_logout_tokens = ScriptedAdapter::without_logout_tokens();
    assert!(LogoutTokens::of(without_logout_tokens, fixture.clock).is_none());
}
