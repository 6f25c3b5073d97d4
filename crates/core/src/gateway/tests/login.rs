use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use iam_adapters::resilient::Operation;
use iam_adapters::trace::Context;
use iam_adapters::{Credentials, IamError, Misconfiguration, Refusal};
use proptest::prelude::*;
use secrecy::ExposeSecret as _;

use super::test_gateway::{LIVENESS, START, TestGateway, policy};
use crate::error::{GatewayError, Internal, Limit};
use crate::request::{RequestContext, RequestId};
use crate::results::DataSource;
use test_support::scripted_iam::{Reply, ScriptedIam};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn credentials_reach_the_iam_unchanged(
        password in "[ \t\r\n\0é\u{301}ﬀ😀a-zA-Z\"\\\\&=+%]{1,40}|\\PC{1,40}",
        local in "[A-Za-zé.+]{1,20}",
    ) {
        let email = format!("{local}@Example.Test");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let gateway = TestGateway::new();
        runtime.block_on(gateway.try_log_in(&email, &password)).unwrap();
        let logins = gateway.iam.logins();
        prop_assert_eq!(logins.len(), 1);
        prop_assert_eq!(logins[0].0.email(), email);
        prop_assert_eq!(logins[0].0.password().expose_secret(), password);
    }
}

#[tokio::test]
async fn client_address_and_request_id_reach_the_iam() {
    let gateway = TestGateway::new();
    let credentials = Credentials::new("alice@example.test".to_owned(), "right".into()).unwrap();
    let address = std::net::IpAddr::from([192, 0, 2, 7]).into();
    let id = RequestId::parse(b"request-1").unwrap();
    let request = RequestContext::new(id, Some(address), Context::new());
    gateway.inner.log_in(&request, &credentials).await.unwrap();
    let (_, received) = gateway.iam.logins().remove(0);
    assert_eq!(received.address, Some(address));
    assert_eq!(received.request_id, "request-1");
}

#[tokio::test]
async fn login_whose_client_disconnects_has_an_event() {
    let gateway = TestGateway::new();
    let _calls = gateway.iam.hold(Operation::Login);
    let mut login = Box::pin(gateway.log_in("alice"));
    assert!(login.as_mut().now_or_never().is_none());
    assert_eq!(gateway.events.take(), [""; 0]);
    drop(login);
    assert_eq!(gateway.events.take(), ["login without an end"]);
}

#[tokio::test]
async fn each_login_has_a_new_session_id_and_token() {
    let gateway = TestGateway::new();
    let (mut ids, mut tokens) = (HashSet::new(), HashSet::new());
    for _ in 0..1_000 {
        let session = gateway.log_in("alice").await;
        assert_eq!(session.id.len(), 22);
        ids.insert(session.id);
        tokens.insert(session.token);
    }
    assert_eq!((ids.len(), tokens.len()), (1_000, 1_000));
}

#[tokio::test]
async fn first_exchange_introspects_once_if_the_login_had_no_permissions() {
    let iam = ScriptedIam {
        returns_permissions: false,
        ..ScriptedIam::default()
    };
    let gateway = TestGateway::with(iam, policy());
    let session = gateway.log_in("alice").await;
    for source in [DataSource::Miss, DataSource::Hit] {
        let exchanged = gateway.exchange(&session, "write").await.unwrap();
        assert_eq!(exchanged.source, source);
        assert_eq!(exchanged.scope, "write");
        assert_eq!(gateway.introspections(), 1);
    }
}

#[tokio::test]
async fn session_lifetime_is_that_of_the_iam_up_to_the_maximum() {
    for (iam_lifetime, lifetime) in [
        (Some(600), 600),
        (Some(86_399), 86_399),
        (Some(86_401), 86_400),
        (None, 86_400),
        (Some(0), 0),
    ] {
        let iam = ScriptedIam {
            expires_in: iam_lifetime.map(Duration::from_secs),
            ..ScriptedIam::default()
        };
        let session = TestGateway::with(iam, policy()).log_in("alice").await;
        assert_eq!(session.expires_at, START + lifetime, "{iam_lifetime:?}");
    }
}

#[tokio::test]
async fn age_of_data_from_a_slow_login_counts_from_its_start() {
    let iam = ScriptedIam {
        expires_in: Some(Duration::from_secs(600)),
        ..ScriptedIam::default()
    };
    let gateway = TestGateway::with(iam, policy());
    let (login, call) = gateway.login_in_flight().await;
    gateway.clock.advance(Duration::from_secs(10));
    call.reply(Reply::Model);
    let session = login.await.unwrap();
    assert_eq!(session.expires_at, START + 600);
    gateway
        .clock
        .advance(LIVENESS.saturating_sub(Duration::from_secs(10)));
    let exchanged = gateway.exchange(&session, "read").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Miss);
}

#[tokio::test]
async fn login_makes_one_call_with_any_result_and_is_not_cached() {
    let gateway = TestGateway::new();
    for (count, fault) in faults().into_iter().enumerate() {
        let expected = GatewayError::from(fault.clone());
        gateway.iam.script(Operation::Login, Reply::Fault(fault));
        let failed = gateway
            .try_log_in("alice@example.test", "right")
            .await
            .err();
        assert_eq!(failed, Some(expected));
        assert_eq!(gateway.iam.calls(Operation::Login), count + 1);
    }
    let wrong = gateway
        .try_log_in("alice@example.test", "wrong")
        .await
        .err();
    assert_eq!(
        wrong,
        Some(GatewayError::Refused(Refusal::InvalidCredentials))
    );
    gateway.log_in("alice").await;
    assert_eq!(gateway.iam.calls(Operation::Login), faults().len() + 2);
}

#[tokio::test]
async fn empty_password_is_refused_like_a_wrong_one_and_reaches_no_iam() {
    let gateway = TestGateway::new();
    for (password, reaches_iam) in [("", false), ("wrong", true)] {
        let refused = gateway.try_log_in("alice@example.test", password).await;
        let wrong = GatewayError::Refused(Refusal::InvalidCredentials);
        assert_eq!(refused.err(), Some(wrong));
        let calls = usize::from(reaches_iam);
        assert_eq!(gateway.iam.calls(Operation::Login), calls, "{password:?}");
        assert_eq!(gateway.events.logins(), [reaches_iam], "{password:?}");
    }
}

/// Whether the limit of the account refuses the login.
async fn is_limited(gateway: &TestGateway, password: &str) -> bool {
    let login = gateway.try_log_in("alice@example.test", password).await;
    matches!(
        login,
        Err(GatewayError::TooManyLogins {
            limit: Limit::Account,
            ..
        })
    )
}

#[tokio::test]
async fn exchanges_and_logouts_do_not_affect_login_limits() {
    let (gateway, session) = TestGateway::with_session().await;
    for _ in 0..10 {
        assert!(!is_limited(&gateway, "wrong").await);
    }
    assert!(is_limited(&gateway, "right").await);
    let calls = gateway.iam.calls(Operation::Login);
    for _ in 0..100 {
        gateway.exchange(&session, "read").await.unwrap();
    }
    assert!(is_limited(&gateway, "right").await);
    gateway.clock.advance(Duration::from_secs(30));
    gateway.exchange(&session, "read").await.unwrap();
    assert_eq!(gateway.introspections(), 1);
    gateway.log_out(&session).await.unwrap();
    for _ in 0..100 {
        gateway.exchange(&session, "read").await.unwrap_err();
    }
    assert_eq!(gateway.iam.calls(Operation::Login), calls);
    // Half a minute allows one more refusal.
    assert!(!is_limited(&gateway, "wrong").await);
    assert!(is_limited(&gateway, "right").await);
}

#[tokio::test]
async fn upstream_session_too_large_for_a_token_fails_the_login_and_is_ended() {
    let iam = ScriptedIam {
        secret_padding: 8 * 1024,
        ..ScriptedIam::default()
    };
    let gateway = TestGateway::with(iam, policy());
    let mut calls = gateway.iam.hold(Operation::Logout);
    let failed = gateway
        .try_log_in("alice@example.test", "right")
        .await
        .err();
    assert_eq!(failed, Some(Internal::SessionTooLarge.into()));
    // No client can use the session, so it is ended. No client waits for that.
    calls.next().await.reply(Reply::Model);
    gateway.iam.release(Operation::Logout);
    let secret = format!("secret-1{}", "x".repeat(8 * 1024));
    while !gateway.iam.has_ended(&secret) {
        tokio::task::yield_now().await;
    }
}

/// One of each fault.
pub(super) fn faults() -> Vec<IamError> {
    vec![
        IamError::Unreachable("refused".into()),
        IamError::Disconnected("broke".into()),
        IamError::TimedOut(Duration::from_secs(2)),
        IamError::Failed("502".to_owned()),
        IamError::Throttled { retry_after: None },
        IamError::Saturated,
        IamError::CircuitOpen,
        IamError::Unreadable("html".into()),
        IamError::misconfigured(Misconfiguration::ClientSecret, "401"),
    ]
}

#[test]
fn each_adapter_fault_maps_to_its_gateway_error() {
    let means: Vec<_> = faults().into_iter().map(GatewayError::from).collect();
    assert!(matches!(
        means[..],
        [
            GatewayError::Unavailable(IamError::Unreachable(_)),
            GatewayError::Unavailable(IamError::Disconnected(_)),
            GatewayError::TooSlow(IamError::TimedOut(_)),
            GatewayError::Unavailable(IamError::Failed(_)),
            GatewayError::Throttled {
                fault: IamError::Throttled { .. },
                retry_after: None
            },
            GatewayError::Full(IamError::Saturated),
            GatewayError::Unavailable(IamError::CircuitOpen),
            GatewayError::Broken(IamError::Unreadable(_)),
            GatewayError::Broken(IamError::Misconfigured { .. }),
        ]
    ));
}

#[test]
fn fault_of_the_policy_server_is_not_reported_as_one_of_the_iam() {
    for fault in faults() {
        let fault = IamError::PermissionSource(Box::new(fault));
        let text = GatewayError::from(fault).to_string();
        assert!(text.contains("the permission source"), "{text}");
        assert!(!text.contains("IAM"), "{text}");
    }
}
