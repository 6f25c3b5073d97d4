//! Every kind of invalid session, made with the real sealing key.

use auth_gateway_core::keys::{KeySet, SealingKey};
use auth_gateway_core::sealed_session::{FORMAT, SealedSession};
use auth_gateway_core::session::seal;
use aws_lc_rs::rand::SystemRandom;
use iam_adapters::Clock as _;
use test_support::client::Session;
use test_support::keys::TestKeys;
use test_support::suite::{IamFixture, READ, session_of};

/// The session id in what is sealed here.
const ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// A session as the gateway seals it, with one change.
fn sealed(
    fixture: &IamFixture,
    key_set: &KeySet<SealingKey>,
    change: impl FnOnce(&mut SealedSession<'_>),
) -> Session {
    let iam = fixture.administrator.adapter();
    let mut session = SealedSession {
        v: FORMAT,
        sid: ID.into(),
        iam: iam.name().into(),
        iss: iam.issuer().into(),
        sub: "subject".into(),
        usid: "upstream".into(),
        secret: "secret".into(),
        iat: fixture.now() * 1_000,
        exp: fixture.now() + 3600,
    };
    change(&mut session);
    let token = seal(key_set, &session, fixture.clock.now(), &SystemRandom::new());
    Session {
        session_id: ID.to_owned(),
        session_token: token.unwrap(),
        verified_at: String::new(),
        expires_at: String::new(),
    }
}

/// Changes to a valid session that need no key.
fn altered(session: &Session) -> Vec<(&'static str, Session)> {
    let parts: Vec<_> = session.session_token.split('.').collect();
    let [header, nonce, text, tag] = [0, 2, 3, 4].map(|at| parts[at]);
    [
        ("no token", "garbage".to_owned()),
        (
            "no base64",
            format!("{header}..{nonce}.{text}.{}*", &tag[..21]),
        ),
        ("five parts of nothing", "....".to_owned()),
        (
            "altered",
            format!("{header}..{nonce}.AAAA{}.{tag}", &text[4..]),
        ),
    ]
    .map(|(class, session_token)| {
        let session = Session {
            session_token,
            ..session.clone()
        };
        (class, session)
    })
    .into()
}

#[tokio::test]
async fn invalid_sessions_detected_without_the_iam_have_identical_responses() {
    let keys = TestKeys::new();
    let fixture = IamFixture::in_memory();
    let gateway = fixture.replica(&keys);
    let user = fixture.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let logged_out = session_of(&gateway, &user).await;
    assert_eq!(gateway.log_out(&logged_out).await.status, 200);

    let (own, others) = (
        keys.sealing().key_set(),
        TestKeys::new().sealing().key_set(),
    );
    let mut classes = altered(&session);
    for (class, session_id) in [
        ("another's id", logged_out.session_id.clone()),
        ("no id", String::new()),
    ] {
        let bad = Session {
            session_id,
            ..session.clone()
        };
        classes.push((class, bad));
    }
    classes.extend([
        ("unknown key", sealed(&fixture, &others, |_| {})),
        ("other format", sealed(&fixture, &own, |it| it.v += 1)),
        (
            "odd id within",
            sealed(&fixture, &own, |it| it.sid = "odd".into()),
        ),
        (
            "other adapter",
            sealed(&fixture, &own, |it| it.iam = "keycloak".into()),
        ),
        (
            "other issuer",
            sealed(&fixture, &own, |it| it.iss = "urn:other".into()),
        ),
        (
            "no subject",
            sealed(&fixture, &own, |it| it.sub = "".into()),
        ),
        (
            "expired",
            sealed(&fixture, &own, |it| it.exp = it.iat / 1_000),
        ),
        ("logged out", logged_out),
    ]);
    let mut responses = Vec::new();
    for (class, bad) in &classes {
        let answer = gateway.exchange(bad, READ).await;
        answer.is_error(401, "invalid_grant");
        assert_eq!(
            answer.header("www-authenticate"),
            r#"Bearer realm="auth", error="invalid_token""#
        );
        responses.push(answer.text());
        assert_eq!(responses.first(), responses.last(), "{class}");
        let answer = gateway.log_out(bad).await;
        if matches!(*class, "expired" | "logged out") {
            assert_eq!(answer.status, 200, "{class}");
        } else {
            answer.is_error(400, "invalid_request");
        }
    }
    assert_eq!(gateway.exchange(&session, READ).await.status, 200);
}
