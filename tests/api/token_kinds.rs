//! Every kind of token at every place that takes another kind, and every way in which a session is no session.

use std::collections::BTreeMap;
use std::path::Path;

use auth_gateway::gateway::keys::{self, Algorithm, KeyRing};
use auth_gateway::gateway::seal::{SealingKey, seal};
use auth_gateway::gateway::session::{FORMAT, SealedSession};
use aws_lc_rs::rand::SystemRandom;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::{ClientContext, Clock as _, Credentials};
use secrecy::ExposeSecret as _;

use crate::app::TestApp;
use crate::client::{JWKS, Session};
use crate::mock_world::mock_world;
use crate::suite::verifier::Verifier;
use crate::suite::{KeyFolder, READ, World, session_of};

/// One token of each kind, by its name: all of them genuine, but for what begins with `made-up`.
async fn of_every_kind(
    world: &World,
    gateway: &TestApp,
    session: &Session,
) -> BTreeMap<&'static str, String> {
    let user = world.user(&[READ]).await;
    let other = session_of(gateway, &user).await;
    let access_token = gateway.exchange(&other, READ).await.token().access_token;
    let credentials = Credentials::new(user.email.clone(), user.password.clone());
    let iam = world.administrator.adapter();
    let upstream = iam
        .authenticate(&credentials.unwrap(), &ClientContext::default())
        .await
        .unwrap();
    // About another user, so that it would do no harm to the session in question.
    let logout_token = world.administrator.end_sessions_of(&user).await.remove(0);
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let parts: Vec<_> = session.session_token.split('.').collect();
    let [header, nonce, tag] = [0, 2, 4].map(|at| parts[at]);
    let claims = access_token.split('.').nth(1).unwrap();
    let none = encoded(r#"{"alg":"none","typ":"at+jwt"}"#);
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
            format!("{none}.{claims}."),
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
async fn no_token_of_one_kind_is_taken_for_one_of_another() {
    let world = mock_world();
    let gateway = world.gateway();
    let user = world.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let kinds = of_every_kind(&world, &gateway, &session).await;
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
            let answer = gateway.tell_logout(token).await;
            assert_eq!(answer.status, 400, "{kind}");
        }
        assert_eq!(
            verifier.try_claims(token).is_ok(),
            *kind == "access token",
            "{kind}"
        );
    }
    // Each is what it is all the same, and none of this has ended anything, also not at the IAM.
    let answer = gateway.tell_logout(&kinds["logout token"]).await;
    assert_eq!(answer.status, 200);
    for _ in 0..2 {
        assert_eq!(gateway.exchange(&session, READ).await.status, 200);
        world.advance(60);
    }
}

/// Sealing keys that the tests have as well as the gateway.
fn sealing(keys: &KeyFolder) -> KeyRing<SealingKey> {
    let [_, (_, folder)] = keys.settings();
    keys::load_sealing(Path::new(folder)).unwrap()
}

#[tokio::test]
async fn every_bad_session_that_is_known_without_the_iam_is_told_alike() {
    let keys = KeyFolder::new(Algorithm::Es256);
    let world = mock_world();
    let gateway = world.replica(&keys);
    let user = world.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let iam = world.administrator.adapter();
    let (name, issuer) = (iam.name(), iam.issuer().to_owned());
    // What is sealed here is about a session that nobody else has.
    let id = "A".repeat(22);
    let genuine = || SealedSession {
        v: FORMAT,
        sid: id.as_str().into(),
        iam: name.into(),
        iss: issuer.as_str().into(),
        sub: "subject".into(),
        usid: "upstream".into(),
        secret: "secret".into(),
        iat: world.now(),
        exp: world.now() + 3600,
    };
    let ring = sealing(&keys);
    let foreign = sealing(&KeyFolder::new(Algorithm::Es256));
    let sealed = |ring, session: SealedSession<'_>| {
        let token = seal(ring, &session, world.clock.now(), &SystemRandom::new());
        Session {
            session_token: token.unwrap(),
            ..self::session(&id)
        }
    };
    let token = |token: String| Session {
        session_token: token,
        ..session.clone()
    };
    let parts: Vec<_> = session.session_token.split('.').collect();
    let [header, nonce, text, tag] = [0, 2, 3, 4].map(|at| parts[at]);
    let out = session_of(&gateway, &user).await;
    assert_eq!(gateway.log_out(&out).await.status, 200);
    // The IAM would say of all of these what it says of a session that it does not know.
    let classes = [
        ("no token", token("garbage".to_owned())),
        (
            "no base64",
            token(format!("{header}..{nonce}.{text}.{}*", &tag[..21])),
        ),
        ("five parts of nothing", token("....".to_owned())),
        ("unknown key", sealed(&foreign, genuine())),
        (
            "altered",
            token(format!("{header}..{nonce}.AAAA{}.{tag}", &text[4..])),
        ),
        (
            "other format",
            sealed(
                &ring,
                SealedSession {
                    v: FORMAT + 1,
                    ..genuine()
                },
            ),
        ),
        (
            "odd id within",
            sealed(
                &ring,
                SealedSession {
                    sid: "odd".into(),
                    ..genuine()
                },
            ),
        ),
        (
            "another's id",
            Session {
                session_id: out.session_id.clone(),
                ..session.clone()
            },
        ),
        (
            "no id",
            Session {
                session_id: String::new(),
                ..session.clone()
            },
        ),
        (
            "other adapter",
            sealed(
                &ring,
                SealedSession {
                    iam: "keycloak".into(),
                    ..genuine()
                },
            ),
        ),
        (
            "other issuer",
            sealed(
                &ring,
                SealedSession {
                    iss: "https://b.test".into(),
                    ..genuine()
                },
            ),
        ),
        (
            "nobody's",
            sealed(
                &ring,
                SealedSession {
                    sub: "".into(),
                    ..genuine()
                },
            ),
        ),
        (
            "expired",
            sealed(
                &ring,
                SealedSession {
                    exp: world.now(),
                    ..genuine()
                },
            ),
        ),
        ("logged out", out),
    ];
    let mut told = Vec::new();
    for (class, bad) in &classes {
        let answer = gateway.exchange(bad, READ).await;
        answer.is_error(401, "invalid_grant");
        assert_eq!(
            answer.header("www-authenticate"),
            r#"Bearer realm="auth", error="invalid_token""#
        );
        told.push(answer.told());
        assert_eq!(told.first(), told.last(), "{class}");
        let answer = gateway.log_out(bad).await;
        if matches!(*class, "expired" | "logged out") {
            assert_eq!(answer.status, 200, "{class}");
        } else {
            answer.is_error(400, "invalid_request");
        }
    }
    assert_eq!(gateway.exchange(&session, READ).await.status, 200);
}

/// A pair of which the token is still to come.
fn session(id: &str) -> Session {
    Session {
        session_id: id.to_owned(),
        session_token: String::new(),
        verified_at: String::new(),
        expires_at: String::new(),
    }
}
