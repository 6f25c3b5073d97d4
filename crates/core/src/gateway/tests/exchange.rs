use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{Introspection, Subject};
use serde_json::json;

use super::test_gateway::{LIVENESS, START, Session, TestGateway, claims, policy};
use crate::error::{GatewayError, InvalidSession};
use crate::results::DataSource;
use crate::timeline::DIFFERENCE_MAX;
use test_support::scripted_iam::{Reply, ScriptedIam};

fn invalid<T>(reason: InvalidSession) -> Result<T, GatewayError> {
    Err(reason.into())
}

#[tokio::test]
async fn token_names_its_session_and_expires_with_it_at_the_latest() {
    let iam = ScriptedIam {
        expires_in: Some(Duration::from_secs(5_000)),
        ..ScriptedIam::default()
    };
    let gateway = TestGateway::with(iam, policy());
    let session = gateway.log_in("alice").await;
    for (at, lifetime) in [(0, 3_600), (1_400, 3_600), (1_401, 3_599), (4_999, 1)] {
        gateway.clock.set_wall(Duration::from_secs(START + at));
        let exchanged = gateway.exchange(&session, "read").await.unwrap();
        assert_eq!(exchanged.token.expires_in, lifetime);
        let claims = claims(&exchanged);
        assert_eq!(claims["sub"], "alice");
        assert_eq!(claims["sid"], session.id);
        assert_eq!(claims["iat"], json!(START + at));
        assert_eq!(claims["exp"], json!(START + at + lifetime));
    }
}

#[tokio::test]
async fn session_is_accepted_until_its_last_second_and_refused_from_its_expiry_on() {
    let (gateway, session) = TestGateway::with_session().await;
    for (at, good) in [
        (session.expires_at - 1, true),
        (session.expires_at, false),
        (session.expires_at + 1, false),
    ] {
        gateway.clock.set_wall(Duration::from_secs(at));
        let calls = gateway.iam.total_calls();
        let exchanged = gateway.granted(&session).await;
        if good {
            assert_eq!(exchanged.unwrap(), "read write");
        } else {
            assert_eq!(exchanged, invalid(InvalidSession::Expired));
            assert_eq!(gateway.iam.total_calls(), calls);
        }
    }
}

/// Revocations of all sessions of a user are kept for no longer.
#[tokio::test]
async fn shorter_lifetime_in_the_settings_ends_sessions_from_before() {
    const SHORTER: Duration = Duration::from_secs(60);
    let (before, session) = TestGateway::with_session().await;
    let mut policy = before.policy();
    policy.iam.session_max_lifetime = SHORTER;
    let gateway = before.with_policy(policy);
    let end = Duration::from_secs(START) + SHORTER + DIFFERENCE_MAX;
    assert!(end.as_secs() < session.expires_at);
    gateway
        .clock
        .set_wall(end.saturating_sub(Duration::from_secs(1)));
    let exchanged = gateway.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.token.expires_in, 1);
    gateway.clock.set_wall(end);
    let expired = gateway.granted(&session).await;
    assert_eq!(expired, invalid(InvalidSession::Expired));
    assert_eq!(before.granted(&session).await.unwrap(), "read write");
}

#[tokio::test]
async fn session_that_expires_during_introspection_gets_no_token() {
    let (gateway, session) = TestGateway::with_session().await;
    gateway
        .clock
        .set_wall(Duration::from_secs(session.expires_at - 1));
    let mut calls = gateway.iam.hold(Operation::Introspection);
    let (exchange, call) = gateway.exchange_in_flight(&session, &mut calls).await;
    gateway.clock.advance(Duration::from_secs(1));
    call.reply(Reply::Model);
    let refused = exchange.await.unwrap().err();
    assert_eq!(refused, Some(InvalidSession::Expired.into()));
}

#[tokio::test]
async fn id_and_token_of_different_sessions_are_refused_and_end_neither() {
    let gateway = TestGateway::new();
    let (alice, bob) = (gateway.log_in("alice").await, gateway.log_in("bob").await);
    for (id, token) in [(&alice, &bob), (&bob, &alice)] {
        let crossed = Session {
            id: id.id.clone(),
            ..token.clone()
        };
        assert_eq!(
            gateway.granted(&crossed).await,
            invalid(InvalidSession::Mismatch)
        );
        assert_eq!(
            gateway.log_out(&crossed).await,
            invalid(InvalidSession::Mismatch)
        );
    }
    assert_eq!(gateway.iam.calls(Operation::Logout), 0);
    assert_eq!(gateway.inner.replica.revocations.count(), 0);
    gateway.clock.advance(LIVENESS);
    assert_eq!(gateway.granted(&alice).await.unwrap(), "read write");
    assert_eq!(gateway.granted(&bob).await.unwrap(), "read");
}

#[tokio::test]
async fn only_the_exact_session_id_is_accepted() {
    let (gateway, session) = TestGateway::with_session().await;
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
        assert_eq!(
            gateway.granted(&odd).await,
            invalid(InvalidSession::Mismatch)
        );
    }
}

#[tokio::test]
async fn session_of_another_iam_is_foreign() {
    let (gateway, session) = TestGateway::with_session().await;
    let other_name = ScriptedIam {
        name: "other",
        ..ScriptedIam::default()
    };
    let other_issuer = ScriptedIam {
        issuer: "https://iam.test/realm/",
        ..ScriptedIam::default()
    };
    for iam in [other_name, other_issuer] {
        let elsewhere = gateway.with_other_iam(iam);
        let foreign = InvalidSession::Foreign;
        assert_eq!(elsewhere.granted(&session).await, invalid(foreign));
        assert_eq!(elsewhere.log_out(&session).await, invalid(foreign));
        assert_eq!(elsewhere.iam.total_calls(), 0);
    }
}

#[tokio::test]
async fn first_error_decides_without_a_call_to_the_iam() {
    let gateway = TestGateway::new();
    let (session, other) = (gateway.log_in("alice").await, gateway.log_in("bob").await);
    let foreign = gateway.with_other_iam(ScriptedIam {
        name: "other",
        ..ScriptedIam::default()
    });
    gateway.log_out(&session).await.unwrap();
    gateway.clock.advance(LIVENESS);
    let calls = gateway.iam.total_calls();

    let ended = gateway.granted(&session).await;
    assert_eq!(ended, invalid(InvalidSession::Ended));

    gateway
        .clock
        .set_wall(Duration::from_secs(session.expires_at));
    let expired = gateway.granted(&session).await;
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
    assert_eq!(gateway.iam.total_calls(), calls);
    assert_eq!(foreign.iam.total_calls(), 0);
}

#[tokio::test]
async fn introspection_of_another_subject_grants_nothing_and_is_not_cached() {
    let gateway = TestGateway::new();
    let session = gateway.log_in("bob").await;
    gateway.clock.advance(LIVENESS);
    let everything = ["read", "write"].map(|name| iam_adapters::Permission::parse(name).unwrap());
    gateway.iam.script(
        Operation::Introspection,
        Reply::Introspection(Introspection::Active {
            subject: Subject::new("alice").unwrap(),
            permissions: everything.into_iter().collect(),
            groups: None,
            claims: iam_adapters::Claims::default(),
        }),
    );
    let refused = gateway.granted(&session).await;
    assert!(
        matches!(refused, Err(GatewayError::Broken(_))),
        "{refused:?}"
    );
    gateway.clock.advance(Duration::from_secs(1));
    let exchanged = gateway.exchange(&session, "read write").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
    assert_eq!(exchanged.scope, "read");
}
