//! Granted scopes.

use serde_json::json;

use super::verifier::Verifier;
use super::{BROWSE, IamFixture, READ, WRITE, session_of};
use crate::endpoints::TOKEN;

pub async fn granted_scope_is_the_intersection_of_requested_and_held(fixture: &IamFixture) {
    let (gateway, user) = (fixture.gateway(), fixture.user(&[READ, WRITE]).await);
    let verifier = Verifier::discover(&gateway).await;
    let session = session_of(&gateway, &user).await;
    for (requested, granted) in [
        (format!("{READ} {WRITE}"), format!("{READ} {WRITE}")),
        (format!("{WRITE} {READ}"), format!("{WRITE} {READ}")),
        (READ.to_owned(), READ.to_owned()),
        (
            format!("{WRITE} {WRITE} {READ} {WRITE}"),
            format!("{WRITE} {READ}"),
        ),
        (
            format!("{BROWSE} {WRITE} urn:unknown:unknown:unknown"),
            WRITE.to_owned(),
        ),
        (
            format!("{} {READ}x {READ}", READ.to_uppercase()),
            READ.to_owned(),
        ),
        ("openid offline_access".to_owned(), String::new()),
    ] {
        let token = gateway.exchange(&session, &requested).await.token();
        assert_eq!(token.scope, granted, "requested {requested:?}");
        let claims = verifier.claims(&token.access_token);
        let claim = claims.get("scope").map_or("", |scope| {
            let scope = scope.as_str();
            scope.expect("a scope of text")
        });
        assert_eq!(claim, granted, "requested {requested:?}");
    }
}

pub async fn missing_scope_means_the_default_scope(fixture: &IamFixture) {
    let user = fixture.user(&[READ, WRITE]).await;
    let default = format!("{WRITE} {BROWSE} {READ}");
    for (default, granted) in [
        ("", String::new()),
        (default.as_str(), format!("{WRITE} {READ}")),
    ] {
        let gateway = fixture.gateway_with(&[("token.default_scope", default)]);
        let session = session_of(&gateway, &user).await;
        let mut absent = session.pair();
        absent["grant_type"] = json!("session");
        let absent = gateway.post_json(TOKEN, &absent).await;
        assert_eq!(absent.token().scope, granted, "absent");
        let empty = gateway.exchange(&session, "").await;
        assert_eq!(empty.token().scope, granted, "empty");
        let requested = gateway.exchange(&session, READ).await;
        assert_eq!(requested.token().scope, READ, "requested for");
    }
}

pub async fn empty_scope_is_refused_if_configured(fixture: &IamFixture) {
    let gateway = fixture.gateway_with(&[("token.refuse_empty_scope", "true")]);
    let session = session_of(&gateway, &fixture.user(&[READ]).await).await;
    for requested in ["", WRITE] {
        let answer = gateway.exchange(&session, requested).await;
        answer.is_error(400, "invalid_scope");
    }
    let requested = format!("{WRITE} {READ}");
    assert_eq!(
        gateway.exchange(&session, &requested).await.token().scope,
        READ
    );
}
