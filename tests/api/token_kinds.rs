//! Every kind of token in every place that expects another kind.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::{ClientContext, Credentials};
use secrecy::ExposeSecret as _;
use test_support::client::Session;
use test_support::endpoints::JWKS;
use test_support::gateway::TestGateway;
use test_support::suite::verifier::Verifier;
use test_support::suite::{IamFixture, READ, session_of};

/// One token of each kind, by its name. All are genuine, except those whose names begin with
/// `made-up`.
async fn of_every_kind(
    fixture: &IamFixture,
    gateway: &TestGateway,
    session: &Session,
) -> BTreeMap<&'static str, String> {
    let user = fixture.user(&[READ]).await;
    let other = session_of(gateway, &user).await;
    let access_token = gateway.exchange(&other, READ).await.token().access_token;
    let credentials = Credentials::new(user.email.clone(), user.password.clone());
    let iam = fixture.administrator.adapter();
    let upstream = iam
        .authenticate(&credentials.unwrap(), &ClientContext::default())
        .await
        .unwrap();
    // For another user, so that it would not end the session under test.
    let logout_token = fixture.administrator.end_sessions_of(&user).await.remove(0);
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let parts: Vec<_> = session.session_token.split('.').collect();
    let [header, nonce, tag] = [0, 2, 4].map(|at| parts[at]);
    let claims = access_token.split('.').nth(1).unwrap();
    let unsigned = encoded(r#"{"alg":"none","typ":"at+jwt"}"#);
    BTreeMap::from([
        ("access token", access_token.clone()),
        ("logout token", logout_token),
        ("session token", session.session_token.clone()),
        ("session id", session.session_id.clone()),
        ("upstream id", upstream.session.id),
        (
            "upstream secret",
            upstream.session.secret.expose_secret().to_owned(),
        ),
        (
            "published keys",
            String::from_utf8(gateway.get(JWKS, &[]).await.body).unwrap(),
        ),
        (
            "made-up JWE under our header",
            format!("{header}..{nonce}.AAAA.{tag}"),
        ),
        (
            "made-up JWE of an access token",
            format!("{header}..{nonce}.{claims}.{tag}"),
        ),
        (
            "made-up JWT without a signature",
            format!("{unsigned}.{claims}."),
        ),
        (
            "made-up refresh token",
            format!(
                "{}.{claims}.AAAA",
                encoded(r#"{"alg":"HS512","typ":"JWT"}"#)
            ),
        ),
    ])
}

#[tokio::test]
async fn token_of_one_kind_is_not_accepted_as_another() {
    let fixture = IamFixture::in_memory();
    let gateway = fixture.gateway();
    let user = fixture.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let kinds = of_every_kind(&fixture, &gateway, &session).await;
    let verifier = Verifier::discover(&gateway).await;
    for (kind, token) in &kinds {
        if *kind != "session token" {
            let pair = Session {
                session_token: token.clone(),
                ..session.clone()
            };
            let answer = gateway.exchange(&pair, READ).await;
            answer.is_error(401, "invalid_grant");
            let answer = gateway.log_out(&pair).await;
            answer.is_error(400, "invalid_request");
        }
        if *kind != "session id" {
            let pair = Session {
                session_id: token.clone(),
                ..session.clone()
            };
            let long = token.len() > 64;
            let (status, code) = if long {
                (400, "invalid_request")
            } else {
                (401, "invalid_grant")
            };
            gateway.exchange(&pair, READ).await.is_error(status, code);
            gateway
                .log_out(&pair)
                .await
                .is_error(400, "invalid_request");
        }
        if *kind != "logout token" {
            let answer = gateway.send_logout_token(token).await;
            assert_eq!(answer.status, 400, "{kind}");
        }
        assert_eq!(
            verifier.try_claims(token).is_ok(),
            *kind == "access token",
            "{kind}"
        );
    }
    // Each is still valid in its own place, and no session ended, also not at the IAM.
    let answer = gateway.send_logout_token(&kinds["logout token"]).await;
    assert_eq!(answer.status, 200);
    for _ in 0..2 {
        assert_eq!(gateway.exchange(&session, READ).await.status, 200);
        fixture.advance(60);
    }
}
