//! Email addresses that move from one user to another at the IAM.

use iam_conformance::Account;
use reqwest::Method;
use serde_json::json;
use test_support::suite::verifier::Verifier;
use test_support::suite::{BROWSE, READ, session_of};

use crate::fixture::LiveFixture;

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn users_who_swap_email_addresses_keep_their_sessions_ids_and_permissions() {
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[]);
    let verifier = Verifier::discover(&gateway).await;
    let one = fixture.user(&[READ]).await;
    let other = fixture.user(&[BROWSE]).await;
    let users = [(&one, READ), (&other, BROWSE)];
    let sessions = [
        session_of(&gateway, &one).await,
        session_of(&gateway, &other).await,
    ];

    rename(&fixture, &one, &format!("away-{}", one.email)).await;
    rename(&fixture, &other, &one.email).await;
    rename(&fixture, &one, &other.email).await;
    fixture.outlive_freshness();

    let requested = format!("{READ} {BROWSE}");
    for ((user, permission), session) in users.iter().zip(&sessions) {
        let token = gateway.exchange(session, &requested).await.token();
        let claims = verifier.claims(&token.access_token);
        assert_eq!(claims["sub"], json!(user.subject.as_str()));
        assert_eq!(token.scope, *permission);
    }
    let swapped = Account {
        email: other.email.clone(),
        ..one.clone()
    };
    let session = session_of(&gateway, &swapped).await;
    let token = gateway.exchange(&session, &requested).await.token();
    let claims = verifier.claims(&token.access_token);
    assert_eq!(claims["sub"], json!(one.subject.as_str()));
    assert_eq!(token.scope, READ);
}

async fn rename(fixture: &LiveFixture, user: &Account, email: &str) {
    let path = ["users", user.subject.as_str()];
    let body = json!({ "username": email, "email": email });
    let api = &fixture.administrator.api;
    api.done(Method::PUT, &path, Some(body)).await;
}
