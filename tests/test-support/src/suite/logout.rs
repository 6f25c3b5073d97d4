//! `POST logout`.

use serde_json::json;

use super::{IamFixture, session_of};

pub async fn logout_returns_ok_and_nothing_else(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[]).await);
    let session = session_of(&gateway, &user).await;
    let answer = gateway.log_out(&session).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.json(), json!({ "status": "Ok" }));
}
