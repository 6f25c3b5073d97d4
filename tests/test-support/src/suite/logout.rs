//! `POST logout`.

use serde_json::json;

use super::verifier::Verifier;
use super::{IamFixture, READ, session_of};

pub async fn logout_returns_ok_and_nothing_else(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[]).await);
    let session = session_of(&gateway, &user).await;
    let answer = gateway.log_out(&session).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.json(), json!({ "status": "Ok" }));
}

pub async fn repeated_logout_succeeds(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[]).await);
    let session = session_of(&gateway, &user).await;
    let expected = gateway.log_out(&session).await.text();
    for _ in 0..3 {
        assert_eq!(gateway.log_out(&session).await.text(), expected);
    }
}

pub async fn logout_ends_only_its_session(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let neighbour = fixture.user(&[READ]).await;
    let ended = session_of(&gateway, &user).await;
    let kept = session_of(&gateway, &user).await;
    let neighbours = session_of(&gateway, &neighbour).await;
    assert_eq!(gateway.exchange(&ended, READ).await.status, 200);
    assert_eq!(gateway.log_out(&ended).await.status, 200);
    // At once, and also after an introspection.
    for _ in 0..2 {
        let answer = gateway.exchange(&ended, READ).await;
        answer.is_error(401, "invalid_grant");
        for active in [&kept, &neighbours] {
            assert_eq!(gateway.exchange(active, READ).await.token().scope, READ);
        }
        fixture.advance(60);
    }
}

pub async fn token_remains_valid_after_logout(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let session = session_of(&gateway, &user).await;
    let token = gateway.exchange(&session, READ).await.token();
    assert_eq!(gateway.log_out(&session).await.status, 200);
    let verifier = Verifier::discover(&gateway).await;
    let claims = verifier.claims(&token.access_token);
    assert_eq!(claims["scope"], json!(READ));
}
