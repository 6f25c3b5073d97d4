//! Tests of the verification of logout tokens.

mod algorithms;
mod altered;
mod fixture;
mod forged;
mod keys;
mod refused;
mod wycheproof;

use serde_json::json;

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
    let mut claims = claims(&fixture);
    claims.as_object_mut().unwrap().remove("sid");
    let notice = fixture.verify(&header(&fixture), &claims).await.unwrap();
    assert_eq!(notice.ended, Ended::AllOf(Subject::new(SUBJECT).unwrap()));
    claims["sid"] = json!(SESSION);
    claims.as_object_mut().unwrap().remove("sub");
    let notice = fixture.verify(&header(&fixture), &claims).await.unwrap();
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
    let mut without_expiry = claims(&fixture);
    without_expiry.as_object_mut().unwrap().remove("exp");
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

#[tokio::test]
async fn token_is_accepted_until_it_is_marked_as_used() {
    let fixture = Fixture::new();
    let token = fixture.sign(&header(&fixture), &claims(&fixture));
    // A token whose processing failed may be sent again.
    for _ in 0..2 {
        fixture.tokens.verify(&token).await.unwrap();
    }
    let notice = fixture.tokens.verify(&token).await.unwrap();
    fixture.tokens.mark_used(&notice);
    let replayed = Err(InvalidLogoutToken::Replayed.into());
    assert_eq!(fixture.tokens.verify(&token).await, replayed);
    fixture
        .verify(&header(&fixture), &claims(&fixture))
        .await
        .unwrap();
    fixture.clock.advance(AGE_MAX);
    assert!(fixture.tokens.verify(&token).await.is_err());
}

#[test]
fn iam_without_logout_tokens_has_no_verifier() {
    let fixture = Fixture::new();
    let without_logout_tokens = ScriptedAdapter::without_logout_tokens();
    assert!(LogoutTokens::of(without_logout_tokens, fixture.clock).is_none());
}
