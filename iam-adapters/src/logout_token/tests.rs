//! Logout tokens before the one who verifies them.

mod algorithms;
mod altered;
mod forged;
mod house;
mod keys;
mod refused;
mod wycheproof;

use serde_json::json;

use super::*;
use house::{House, SESSION, SUBJECT, claims, header};

#[tokio::test]
async fn a_token_as_keycloak_sends_it_tells_which_session_ended() {
    let house = House::new();
    let mut claims = claims(&house);
    claims["typ"] = json!("Logout");
    let notice = house.verify(&header(&house), &claims).await.unwrap();
    assert_eq!(notice.ended, Ended::Session(SESSION.to_owned()));
    assert_eq!(notice.issued_at, house.now());
}

#[tokio::test]
async fn a_token_without_a_session_is_about_all_of_a_subject() {
    let house = House::new();
    let mut claims = claims(&house);
    claims.as_object_mut().unwrap().remove("sid");
    let notice = house.verify(&header(&house), &claims).await.unwrap();
    assert_eq!(notice.ended, Ended::AllOf(Subject::new(SUBJECT).unwrap()));
    claims["sid"] = json!(SESSION);
    claims.as_object_mut().unwrap().remove("sub");
    let notice = house.verify(&header(&house), &claims).await.unwrap();
    assert_eq!(notice.ended, Ended::Session(SESSION.to_owned()));
}

#[tokio::test]
async fn whatever_the_specification_leaves_open_is_accepted() {
    let house = House::new();
    let now = house.now();
    for (member, value) in [
        ("aud", json!(["another", house::CLIENT])),
        ("iat", json!(now - 120)),
        ("iat", json!(now + 60)),
        ("exp", json!(now + 1)),
        ("nbf", json!(now + 60)),
        (
            "events",
            json!({house::EVENT: {"more": [1]}, "urn:another": 1}),
        ),
        ("anything", json!({"else": null})),
    ] {
        let mut claims = claims(&house);
        claims[member] = value;
        let verified = house.verify(&header(&house), &claims).await;
        assert!(verified.is_ok(), "{claims} {verified:?}");
    }
    let mut without_expiry = claims(&house);
    without_expiry.as_object_mut().unwrap().remove("exp");
    house
        .verify(&header(&house), &without_expiry)
        .await
        .unwrap();
    for typ in ["Logout+JWT", "application/logout+jwt"] {
        let mut header = header(&house);
        header["typ"] = json!(typ);
        house.verify(&header, &claims(&house)).await.unwrap();
    }
}

#[tokio::test]
async fn a_token_is_accepted_until_it_was_acted_on_and_not_again() {
    let house = House::new();
    let token = house.sign(&header(&house), &claims(&house));
    // What was not acted on, because of a fault, may be repeated.
    for _ in 0..2 {
        house.tokens.verify(&token).await.unwrap();
    }
    let notice = house.tokens.verify(&token).await.unwrap();
    house.tokens.take(&notice);
    let replayed = Err(InvalidLogoutToken::Replayed.into());
    assert_eq!(house.tokens.verify(&token).await, replayed);
    house
        .verify(&header(&house), &claims(&house))
        .await
        .unwrap();
    house.clock.advance(AGE_MAX);
    assert!(house.tokens.verify(&token).await.is_err());
}

#[test]
fn an_iam_that_sends_no_logout_tokens_has_nothing_to_verify() {
    let house = House::new();
    let silent = house::Iam {
        audience: None,
        ..house::Iam::default()
    };
    assert!(LogoutTokens::of(Arc::new(silent), house.clock).is_none());
}
