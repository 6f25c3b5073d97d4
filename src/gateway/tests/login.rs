use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use iam_adapters::resilient::Operation;
use iam_adapters::{ClientContext, Credentials, IamError, Misconfiguration, Refusal};
use proptest::prelude::*;
use secrecy::ExposeSecret as _;

use super::house::{House, LIVENESS, START, policy};
use super::scripted::{Reply, Scripted};
use crate::gateway::error::{GatewayError, Internal};
use crate::gateway::knowledge::Source;
use crate::gateway::login_limiter::Limit;

#[tokio::test]
async fn an_empty_password_is_refused_without_asking_the_iam() {
    let house = House::new();
    let refused = house.try_log_in("alice@example.test", "").await.err();
    assert_eq!(
        refused,
        Some(GatewayError::Refused(Refusal::InvalidCredentials))
    );
    assert_eq!(house.iam.calls_in_all(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn credentials_reach_the_iam_byte_for_byte(
        password in "[ \t\r\n\0é\u{301}ﬀ😀a-zA-Z\"\\\\&=+%]{1,40}|\\PC{1,40}",
        local in "[A-Za-zé.+]{1,20}",
    ) {
        let email = format!("{local}@Example.Test");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let house = House::new();
        runtime.block_on(house.try_log_in(&email, &password)).unwrap();
        let seen = house.iam.seen();
        prop_assert_eq!(seen.len(), 1);
        prop_assert_eq!(seen[0].0.email(), email);
        prop_assert_eq!(seen[0].0.password().expose_secret(), password);
    }
}

#[tokio::test]
async fn the_iam_learns_on_whose_behalf_it_is_called() {
    let house = House::new();
    let credentials = Credentials::new("alice@example.test".to_owned(), "right".into()).unwrap();
    let client = ClientContext {
        address: Some(std::net::IpAddr::from([192, 0, 2, 7]).into()),
        request_id: "request-1".to_owned(),
    };
    house
        .gateway
        .log_in(&credentials, &client)
        .await
        .result
        .unwrap();
    let (_, seen) = house.iam.seen().remove(0);
    assert_eq!(seen.address, client.address);
    assert_eq!(seen.request_id, "request-1");
}

#[tokio::test]
async fn session_ids_and_tokens_are_fresh_for_every_login() {
    let house = House::new();
    let (mut ids, mut tokens) = (HashSet::new(), HashSet::new());
    for _ in 0..1_000 {
        let session = house.log_in("alice").await;
        assert_eq!(session.id.len(), 22);
        ids.insert(session.id);
        tokens.insert(session.token);
    }
    assert_eq!((ids.len(), tokens.len()), (1_000, 1_000));
}

#[tokio::test]
async fn an_exchange_right_after_the_login_asks_nobody() {
    let house = House::new();
    let session = house.log_in("alice").await;
    let exchanged = house.exchange(&session, "write").await.unwrap();
    assert_eq!(exchanged.source, Source::Hit);
    assert_eq!(exchanged.scope, "write");
    assert_eq!(house.introspections(), 0);
}

#[tokio::test]
async fn where_the_login_does_not_tell_the_permissions_the_first_exchange_asks_once() {
    let iam = Scripted {
        tells_permissions: false,
        ..Scripted::default()
    };
    let house = House::with(iam, policy());
    let session = house.log_in("alice").await;
    for source in [Source::Miss, Source::Hit] {
        let exchanged = house.exchange(&session, "write").await.unwrap();
        assert_eq!(exchanged.source, source);
        assert_eq!(exchanged.scope, "write");
        assert_eq!(house.introspections(), 1);
    }
}

#[tokio::test]
async fn a_session_lives_as_long_as_the_iam_promises_and_never_longer_than_the_policy_allows() {
    for (promised, lives) in [
        (Some(600), 600),
        (Some(86_399), 86_399),
        (Some(86_401), 86_400),
        (None, 86_400),
        (Some(0), 0),
    ] {
        let iam = Scripted {
            expires_in: promised.map(Duration::from_secs),
            ..Scripted::default()
        };
        let session = House::with(iam, policy()).log_in("alice").await;
        assert_eq!(session.expires_at, START + lives, "{promised:?}");
    }
}

#[tokio::test]
async fn what_a_slow_login_learned_is_as_old_as_its_question() {
    let iam = Scripted {
        expires_in: Some(Duration::from_secs(600)),
        ..Scripted::default()
    };
    let house = House::with(iam, policy());
    let mut calls = house.iam.hold(Operation::Login);
    let login = tokio::spawn({
        let house = house.clone();
        async move { house.log_in("alice").await }
    });
    let call = calls.next().await;
    house.clock.advance(Duration::from_secs(10));
    call.reply(Reply::Model);
    let session = login.await.unwrap();
    assert_eq!(session.expires_at, START + 600);
    house
        .clock
        .advance(LIVENESS.saturating_sub(Duration::from_secs(10)));
    let exchanged = house.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, Source::Miss);
}

#[tokio::test]
async fn a_login_is_asked_once_whatever_comes_of_it_and_the_next_one_asks_again() {
    let house = House::new();
    for (count, fault) in faults().into_iter().enumerate() {
        let means = GatewayError::from(fault.clone());
        house.iam.script(Operation::Login, Reply::Fault(fault));
        let failed = house.try_log_in("alice@example.test", "right").await.err();
        assert_eq!(failed, Some(means));
        assert_eq!(house.iam.calls(Operation::Login), count + 1);
    }
    let wrong = house.try_log_in("alice@example.test", "wrong").await.err();
    assert_eq!(
        wrong,
        Some(GatewayError::Refused(Refusal::InvalidCredentials))
    );
    house.log_in("alice").await;
    assert_eq!(house.iam.calls(Operation::Login), faults().len() + 2);
}

/// Whether the limit of the account stops it.
async fn is_stopped(house: &House, password: &str) -> bool {
    let login = house.try_log_in("alice@example.test", password).await;
    matches!(
        login,
        Err(GatewayError::TooManyLogins {
            limit: Limit::Account,
            ..
        })
    )
}

#[tokio::test]
async fn no_exchange_and_no_logout_moves_an_accounts_limit_either_way() {
    let house = House::new();
    let session = house.log_in("alice").await;
    for _ in 0..10 {
        assert!(!is_stopped(&house, "wrong").await);
    }
    assert!(is_stopped(&house, "right").await);
    let asked = house.iam.calls(Operation::Login);
    for _ in 0..100 {
        house.exchange(&session, "read").await.unwrap();
    }
    assert!(is_stopped(&house, "right").await);
    house.clock.advance(Duration::from_secs(30));
    house.exchange(&session, "read").await.unwrap();
    assert_eq!(house.introspections(), 1);
    house.log_out(&session).await.unwrap();
    for _ in 0..100 {
        house.exchange(&session, "read").await.unwrap_err();
    }
    assert_eq!(house.iam.calls(Operation::Login), asked);
    // Half a minute has room for one refusal, and for no other.
    assert!(!is_stopped(&house, "wrong").await);
    assert!(is_stopped(&house, "right").await);
}

#[tokio::test]
async fn a_login_under_way_holds_its_place_until_the_iam_has_answered() {
    let house = House::new();
    let mut calls = house.iam.hold(Operation::Login);
    let mut held = Vec::new();
    for _ in 0..10 {
        let house = house.clone();
        let login = tokio::spawn(async move { house.log_in("alice").await });
        held.push((login, calls.next().await));
    }
    // Where it is not stopped, it waits for the IAM.
    let another = is_stopped(&house, "right").now_or_never();
    assert_eq!(another, Some(true));
    for (login, call) in held {
        call.reply(Reply::Model);
        login.await.unwrap();
    }
    let again = tokio::spawn({
        let house = house.clone();
        async move { house.log_in("alice").await }
    });
    calls.next().await.reply(Reply::Model);
    again.await.unwrap();
}

#[tokio::test]
async fn an_upstream_session_too_large_for_a_token_fails_the_login_and_is_not_cut() {
    let iam = Scripted {
        ballast: 8 * 1024,
        ..Scripted::default()
    };
    let house = House::with(iam, policy());
    let mut calls = house.iam.hold(Operation::Logout);
    let failed = house.try_log_in("alice@example.test", "right").await.err();
    assert_eq!(failed, Some(Internal::SessionTooLarge.into()));
    // Nobody can use the session any more, so it is ended, and no client waits for that.
    calls.next().await.reply(Reply::Model);
    house.iam.let_go(Operation::Logout);
    let secret = format!("secret-1{}", "x".repeat(8 * 1024));
    while !house.iam.has_ended(&secret) {
        tokio::task::yield_now().await;
    }
}

/// One of each fault.
pub(super) fn faults() -> Vec<IamError> {
    vec![
        IamError::Unreachable("refused".to_owned()),
        IamError::TimedOut(Duration::from_secs(2)),
        IamError::Failed("502".to_owned()),
        IamError::Throttled { retry_after: None },
        IamError::Saturated,
        IamError::CircuitOpen,
        IamError::Unreadable("html".to_owned()),
        IamError::misconfigured(Misconfiguration::ClientSecret, "401"),
    ]
}

#[test]
fn each_fault_means_to_the_gateway_what_the_failure_table_says() {
    let means: Vec<_> = faults().into_iter().map(GatewayError::from).collect();
    assert!(matches!(
        means[..],
        [
            GatewayError::Unavailable(IamError::Unreachable(_)),
            GatewayError::TooSlow(IamError::TimedOut(_)),
            GatewayError::Unavailable(IamError::Failed(_)),
            GatewayError::Throttled { retry_after: None },
            GatewayError::Full,
            GatewayError::Unavailable(IamError::CircuitOpen),
            GatewayError::Broken(IamError::Unreadable(_)),
            GatewayError::Broken(IamError::Misconfigured { .. }),
        ]
    ));
}
