use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{Introspection, Subject};
use serde_json::json;

use super::house::{House, LIVENESS, START, Session, claims, policy};
use super::scripted::{Reply, Scripted};
use crate::gateway::error::{GatewayError, InvalidSession};
use crate::gateway::knowledge::Source;

fn invalid<T>(reason: InvalidSession) -> Result<T, GatewayError> {
    Err(reason.into())
}

#[tokio::test]
async fn the_token_speaks_of_the_session_and_never_outlives_it() {
    let iam = Scripted {
        expires_in: Some(Duration::from_secs(5_000)),
        ..Scripted::default()
    };
    let house = House::with(iam, policy());
    let session = house.log_in("alice").await;
    for (at, lives) in [(0, 3_600), (1_400, 3_600), (1_401, 3_599), (4_999, 1)] {
        house.clock.set_wall(Duration::from_secs(START + at));
        let exchanged = house.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.token.expires_in, lives);
        let claims = claims(&exchanged);
        assert_eq!(claims["sub"], "alice");
        assert_eq!(claims["sid"], session.id);
        assert_eq!(claims["iat"], json!(START + at));
        assert_eq!(claims["exp"], json!(START + at + lives));
    }
}

#[tokio::test]
async fn a_session_is_good_to_its_last_second_and_refused_from_its_expiry_on() {
    let house = House::new();
    let session = house.log_in("alice").await;
    for (at, good) in [
        (session.expires_at - 1, true),
        (session.expires_at, false),
        (session.expires_at + 1, false),
    ] {
        house.clock.set_wall(Duration::from_secs(at));
        let calls = house.iam.calls_in_all();
        let exchanged = house.granted(&session).await;
        if good {
            assert_eq!(exchanged.unwrap(), "read write");
        } else {
            assert_eq!(exchanged, invalid(InvalidSession::Expired));
            assert_eq!(house.iam.calls_in_all(), calls);
        }
    }
}

#[tokio::test]
async fn a_session_that_expires_while_the_iam_is_asked_gets_no_token() {
    let house = House::new();
    let session = house.log_in("alice").await;
    house
        .clock
        .set_wall(Duration::from_secs(session.expires_at - 1));
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchange = house.begin_exchange(&session);
    let call = calls.next().await;
    house.clock.advance(Duration::from_secs(1));
    call.reply(Reply::Model);
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Expired.into()));
}

#[tokio::test]
async fn the_id_of_one_session_with_the_token_of_another_is_refused_and_ends_neither() {
    let house = House::new();
    let (alice, bob) = (house.log_in("alice").await, house.log_in("bob").await);
    for (id, token) in [(&alice, &bob), (&bob, &alice)] {
        let crossed = Session {
            id: id.id.clone(),
            ..token.clone()
        };
        assert_eq!(
            house.granted(&crossed).await,
            invalid(InvalidSession::Mismatch)
        );
        assert_eq!(
            house.log_out(&crossed).await,
            invalid(InvalidSession::Mismatch)
        );
    }
    assert_eq!(house.iam.calls(Operation::Logout), 0);
    assert_eq!(house.gateway.session_ends().revocations().count(), 0);
    house.clock.advance(LIVENESS);
    assert_eq!(house.granted(&alice).await.unwrap(), "read write");
    assert_eq!(house.granted(&bob).await.unwrap(), "read");
}

#[tokio::test]
async fn only_the_id_as_it_was_handed_out_opens_the_session() {
    let house = House::new();
    let session = house.log_in("alice").await;
    for id in [
        String::new(),
        format!("{} ", session.id),
        format!("{}=", session.id),
        session.id[..21].to_owned(),
        session.id.to_lowercase() + "A",
        "\0".repeat(22),
    ] {
        let odd = Session {
            id,
            ..session.clone()
        };
        assert_eq!(house.granted(&odd).await, invalid(InvalidSession::Mismatch));
    }
}

#[tokio::test]
async fn a_session_of_another_iam_is_foreign() {
    let house = House::new();
    let session = house.log_in("alice").await;
    let other_name = Scripted {
        name: "other",
        ..Scripted::default()
    };
    let other_issuer = Scripted {
        issuer: "https://iam.test/realm/",
        ..Scripted::default()
    };
    for iam in [other_name, other_issuer] {
        let elsewhere = house.before(iam);
        let foreign = InvalidSession::Foreign;
        assert_eq!(elsewhere.granted(&session).await, invalid(foreign));
        assert_eq!(elsewhere.log_out(&session).await, invalid(foreign));
        assert_eq!(elsewhere.iam.calls_in_all(), 0);
    }
}

#[tokio::test]
async fn the_first_thing_that_is_wrong_decides_and_the_iam_is_never_asked_about_it() {
    let house = House::new();
    let (session, other) = (house.log_in("alice").await, house.log_in("bob").await);
    let foreign = house.before(Scripted {
        name: "other",
        ..Scripted::default()
    });
    house.log_out(&session).await.unwrap();
    house.clock.advance(LIVENESS);
    let calls = house.iam.calls_in_all();

    let ended = house.granted(&session).await;
    assert_eq!(ended, invalid(InvalidSession::Ended));

    house
        .clock
        .set_wall(Duration::from_secs(session.expires_at));
    let expired = house.granted(&session).await;
    assert_eq!(expired, invalid(InvalidSession::Expired));
    assert_eq!(
        foreign.granted(&session).await,
        invalid(InvalidSession::Foreign)
    );

    let mut crossed = Session {
        id: other.id,
        ..session
    };
    assert_eq!(
        foreign.granted(&crossed).await,
        invalid(InvalidSession::Mismatch)
    );
    crossed.token.push('A');
    assert_eq!(
        foreign.granted(&crossed).await,
        invalid(InvalidSession::Malformed)
    );
    assert_eq!(house.iam.calls_in_all(), calls);
    assert_eq!(foreign.iam.calls_in_all(), 0);
}

#[tokio::test]
async fn a_token_that_differs_in_one_character_never_finds_anothers_knowledge() {
    let house = House::new();
    let session = house.log_in("alice").await;
    for at in 0..session.token.len() {
        let mut bytes = session.token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = Session {
            token: String::from_utf8(bytes).unwrap(),
            ..session.clone()
        };
        let refused = house.granted(&changed).await;
        assert!(
            matches!(refused, Err(GatewayError::InvalidSession(_))),
            "{at}"
        );
    }
    assert_eq!(house.introspections(), 0);
    assert_eq!(house.granted(&session).await.unwrap(), "read write");
}

#[tokio::test]
async fn an_answer_about_somebody_else_grants_nothing_and_is_not_kept() {
    let house = House::new();
    let session = house.log_in("bob").await;
    house.clock.advance(LIVENESS);
    let everything = ["read", "write"].map(|name| iam_adapters::Permission::parse(name).unwrap());
    house.iam.script(
        Operation::Introspection,
        Reply::Say(Introspection::Active {
            subject: Subject::new("alice").unwrap(),
            permissions: everything.into_iter().collect(),
        }),
    );
    let refused = house.granted(&session).await;
    assert!(
        matches!(refused, Err(GatewayError::Broken(_))),
        "{refused:?}"
    );
    let exchanged = house.exchange(&session, "read write").await.unwrap();
    assert_eq!(exchanged.source, Source::Miss);
    assert_eq!(exchanged.scope, "read");
}
