//! `POST token`.

use serde_json::{Value, json};

use super::verifier::Verifier;
use super::{IamFixture, READ, session_of};
use crate::endpoints::METADATA;
use crate::gateway::PUBLIC_URL;

pub async fn exchange_returns_a_token_and_nothing_else(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let session = session_of(&gateway, &user).await;
    let answer = gateway.exchange(&session, READ).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(
        answer.members(),
        ["access_token", "expires_in", "scope", "token_type"]
    );
    let body = answer.json();
    assert!(body["access_token"].is_string());
    assert_eq!(body["scope"], json!(READ));
    assert!(body["expires_in"].is_u64(), "{}", body["expires_in"]);
    assert_eq!(body["token_type"], json!("bearer"));
}

pub async fn token_contains_user_session_and_times(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ]).await);
    let verifier = Verifier::discover(&gateway).await;
    let session = session_of(&gateway, &user).await;
    let token = gateway.exchange(&session, READ).await.token();
    let mut claims = verifier.claims(&token.access_token);
    let id = claims["jti"].take();
    assert_eq!(id.as_str().map(str::len), Some(22), "128 bits: {id}");
    assert_eq!(
        claims,
        json!({
            "iss": PUBLIC_URL,
            "sub": user.subject.as_str(),
            "aud": PUBLIC_URL,
            "iat": fixture.now(),
            "exp": fixture.now() + token.expires_in,
            "jti": Value::Null,
            "client_id": "auth-gateway",
            "scope": READ,
            "sid": session.session_id,
        })
    );
}

pub async fn several_audiences_keep_their_order(fixture: &IamFixture) {
    let gateway = fixture.gateway_with(&[
        ("token.audience", "urn:shop:orders,https://catalog.test"),
        ("token.client_id", "shop"),
    ]);
    let metadata = gateway.get(METADATA, &[]).await.json();
    let addresses = &metadata["protected_resources"];
    assert_eq!(addresses, &json!(["https://catalog.test"]));
    let verifier = Verifier::discover(&gateway).await;
    let session = session_of(&gateway, &fixture.user(&[]).await).await;
    let token = gateway.exchange(&session, "").await.token();
    let claims = verifier.claims(&token.access_token);
    assert_eq!(
        claims["aud"],
        json!(["urn:shop:orders", "https://catalog.test"])
    );
    assert_eq!(claims["client_id"], json!("shop"));
}
