//! Sessions that a logout token ends.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::resilient::Operation;
use test_support::LogoutSigner;

use super::replicas::RecordingReplicas;
use super::test_gateway::{MILLISECOND, START, Session, TestGateway, policy};
use crate::error::{GatewayError, InvalidSession, NotReady};
use crate::request::RequestContext;
use test_support::scripted_iam::{CLIENT, Reply, ScriptedIam};

const ENDED: GatewayError = GatewayError::InvalidSession(InvalidSession::Ended);
const SECOND: Duration = Duration::from_secs(1);

fn test_gateway() -> TestGateway {
    let iam = ScriptedIam {
        signer: LogoutSigner::generate(),
        ..ScriptedIam::default()
    };
    TestGateway::with(iam, policy())
}

/// A token issued at a second of the IAM's clock.
fn token(gateway: &TestGateway, subject: Option<&str>, session: Option<&str>, at: u64) -> String {
    let parties = (gateway.iam.issuer, CLIENT);
    let signer = gateway.iam.signer.as_ref().unwrap();
    let token = signer.logout_token(parties, subject, session, at);
    token.unwrap()
}

async fn receive(gateway: &TestGateway, token: &str) -> Result<Ended, GatewayError> {
    let request = RequestContext::default();
    let received = gateway.inner.receive_logout_token(&request, token).await;
    received.map(|by_iam| by_iam.ended)
}

async fn has_ended(gateway: &TestGateway, session: &Session) -> bool {
    match gateway.granted(session).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, ENDED);
            true
        }
    }
}

#[tokio::test]
async fn logout_token_with_sid_ends_that_session_with_or_without_sub() {
    for subject in [None, Some("alice")] {
        let gateway = test_gateway();
        let (named, other) = (gateway.log_in("alice").await, gateway.log_in("alice").await);
        let received = receive(
            &gateway,
            &token(&gateway, subject, Some("upstream-1"), START),
        )
        .await;
        assert_eq!(received, Ok(Ended::Session("upstream-1".to_owned())));
        assert!(has_ended(&gateway, &named).await);
        assert!(!has_ended(&gateway, &other).await);
        assert_eq!(gateway.introspections(), 0);
        gateway.log_out(&named).await.unwrap();
        assert_eq!(
            gateway.iam.calls(Operation::Logout),
            0,
            "the session has already ended"
        );
    }
}

#[tokio::test]
async fn logout_token_without_sid_ends_the_sessions_of_its_subject_that_began_before_its_arrival() {
    let gateway = test_gateway();
    let early = gateway.log_in("alice").await;
    gateway.clock.advance(SECOND);
    // At the same moment, the order is unknown.
    let same = gateway.log_in("alice").await;
    let bob = gateway.log_in("bob").await;
    let notice = token(&gateway, Some("alice"), None, START + 1);
    receive(&gateway, &notice).await.unwrap();
    gateway.clock.advance(SECOND);
    let late = gateway.log_in("alice").await;
    assert!(has_ended(&gateway, &early).await);
    assert!(has_ended(&gateway, &same).await);
    assert!(!has_ended(&gateway, &late).await);
    assert!(!has_ended(&gateway, &bob).await);
}

#[tokio::test]
async fn login_that_begins_after_the_arrival_in_the_same_second_stays() {
    let gateway = test_gateway();
    let before = gateway.log_in("alice").await;
    let notice = token(&gateway, Some("alice"), None, START);
    receive(&gateway, &notice).await.unwrap();
    gateway.clock.advance(MILLISECOND);
    let after = gateway.log_in("alice").await;
    assert!(has_ended(&gateway, &before).await);
    assert!(!has_ended(&gateway, &after).await);
}

#[tokio::test]
async fn clock_skew_leaves_no_earlier_session_active_and_ends_no_later_one() {
    // The seconds by which the IAM's clock is behind and ahead.
    for (behind, ahead) in [(59, 0), (30, 0), (0, 30), (0, 60)] {
        let gateway = test_gateway();
        gateway.clock.advance(60 * SECOND);
        let now = START + 60;
        let before = gateway.log_in("alice").await;
        let notice = token(&gateway, Some("alice"), None, now + ahead - behind);
        receive(&gateway, &notice).await.unwrap();
        gateway.clock.advance(SECOND);
        let after = gateway.log_in("alice").await;
        assert!(has_ended(&gateway, &before).await, "-{behind} +{ahead}");
        assert!(!has_ended(&gateway, &after).await, "-{behind} +{ahead}");
    }
}

/// Logins have the time of Redis, and the token that of the IAM.
#[tokio::test]
async fn clock_of_redis_that_is_wrong_leaves_no_earlier_session_active() {
    for (behind, ahead) in [(590, 0), (0, 590)] {
        let (gateway, _) = RecordingReplicas::of(&test_gateway());
        let now = gateway.inner.replica.clock.now();
        let of_redis = (now.unix + ahead * SECOND).saturating_sub(behind * SECOND);
        let timeline = &gateway.inner.replica.timeline;
        timeline.measured(now, of_redis, now);
        let before = gateway.log_in("alice").await;
        gateway.clock.advance(30 * SECOND);
        let notice = token(&gateway, Some("alice"), None, START + 30);
        receive(&gateway, &notice).await.unwrap();
        gateway.clock.advance(SECOND);
        let after = gateway.log_in("alice").await;
        assert!(has_ended(&gateway, &before).await, "-{behind} +{ahead}");
        assert!(!has_ended(&gateway, &after).await, "-{behind} +{ahead}");
    }
}

#[tokio::test]
async fn delayed_logout_token_ends_only_sessions_that_may_be_older() {
    let gateway = test_gateway();
    let notice = token(&gateway, Some("alice"), None, START);
    gateway.clock.advance(60 * SECOND);
    let maybe_earlier = gateway.log_in("alice").await;
    gateway.clock.advance(SECOND);
    let certainly_later = gateway.log_in("alice").await;
    gateway.clock.advance(58 * SECOND);
    receive(&gateway, &notice).await.unwrap();
    assert!(has_ended(&gateway, &maybe_earlier).await);
    assert!(!has_ended(&gateway, &certainly_later).await);
}

#[tokio::test]
async fn logout_token_is_accepted_once_and_again_only_after_a_fault() {
    for (subject, id) in [(Some("alice"), None), (None, Some("upstream-1"))] {
        let gateway = test_gateway();
        let session = gateway.log_in("alice").await;
        let notice = token(&gateway, subject, id, START);
        let fault = IamError::Unreachable("refused".into());
        gateway
            .iam
            .script(Operation::Keys, Reply::Fault(fault.clone()));
        let received = receive(&gateway, &notice).await;
        assert_eq!(received, Err(GatewayError::Unavailable(fault)));
        assert!(!has_ended(&gateway, &session).await);
        gateway.clock.advance(10 * SECOND);
        receive(&gateway, &notice).await.unwrap();
        assert!(has_ended(&gateway, &session).await);
        let replayed = GatewayError::InvalidLogoutToken(InvalidLogoutToken::Replayed);
        assert_eq!(receive(&gateway, &notice).await, Err(replayed));
        let another = token(&gateway, subject, id, START);
        receive(&gateway, &another).await.unwrap();
        assert_eq!(gateway.iam.calls(Operation::Keys), 2);
    }
}

#[tokio::test]
async fn use_of_a_logout_token_is_sent_to_the_other_replicas() {
    for (subject, id) in [(Some("alice"), None), (None, Some("upstream-1"))] {
        let (gateway, replicas) = RecordingReplicas::of(&test_gateway());
        let notice = token(&gateway, subject, id, START);
        receive(&gateway, &notice).await.unwrap();
        let sent = replicas.sent();
        assert_eq!(sent.len(), 2, "what the token has ended, and the token");
        let other = gateway.replica();
        for revocation in &sent {
            assert!(other.apply_remote(revocation));
        }
        let replayed = GatewayError::InvalidLogoutToken(InvalidLogoutToken::Replayed);
        assert_eq!(receive(&other, &notice).await, Err(replayed));
    }
}

#[tokio::test]
async fn used_logout_token_ends_no_later_session_at_another_replica() {
    let (here, replicas) = RecordingReplicas::of(&test_gateway());
    let there = here.replica();
    let session = here.log_in("alice").await;
    let notice = token(&here, Some("alice"), None, START);
    receive(&here, &notice).await.unwrap();
    for sent in replicas.sent() {
        there.apply_remote(&sent);
    }
    here.clock.advance(2 * SECOND);
    let later = here.log_in("alice").await;
    let replayed = GatewayError::InvalidLogoutToken(InvalidLogoutToken::Replayed);
    assert_eq!(receive(&there, &notice).await, Err(replayed));
    for gateway in [&here, &there] {
        assert!(has_ended(gateway, &session).await);
        assert!(!has_ended(gateway, &later).await);
    }
    // Another token of the IAM ends it, also one of a clock that is behind.
    let another = token(&there, Some("alice"), None, START - 30);
    receive(&there, &another).await.unwrap();
    assert!(has_ended(&there, &later).await);
}

#[tokio::test]
async fn logout_tokens_of_unknown_sessions_do_not_stop_logins() {
    let gateway = test_gateway().replica_with_room(16);
    let full = Err(NotReady::TooManyRevocations.into());
    let mut accepted = 0;
    for number in 0..32 {
        let notice = token(&gateway, None, Some(&format!("made-up-{number}")), START);
        match receive(&gateway, &notice).await {
            Ok(_) => accepted += 1,
            refused => assert_eq!(refused, full),
        }
    }
    // A quarter of the table, and a record of each used token.
    assert_eq!(accepted, 4);
    assert_eq!(gateway.inner.replica.revocations.count(), 8);
    gateway.log_in("alice").await;
}

#[tokio::test]
async fn iam_may_send_600_logout_tokens_a_second() {
    let gateway = test_gateway();
    let send = async |numbers: std::ops::Range<u32>| {
        let mut accepted = 0;
        for number in numbers {
            let notice = token(&gateway, None, Some(&number.to_string()), START);
            accepted += usize::from(receive(&gateway, &notice).await.is_ok());
        }
        accepted
    };
    assert_eq!(send(0..620).await, 600);
    gateway.clock.advance(SECOND);
    assert_eq!(send(620..1_240).await, 600);
}

#[tokio::test]
async fn invalid_logout_token_ends_nothing() {
    let gateway = test_gateway();
    let session = gateway.log_in("alice").await;
    let signer = LogoutSigner::generate().unwrap();
    let forged = signer.logout_token(
        (gateway.iam.issuer, CLIENT),
        None,
        Some("upstream-1"),
        START,
    );
    for token in ["", "a.b.c", &forged.unwrap()] {
        let received = receive(&gateway, token).await;
        let invalid = matches!(received, Err(GatewayError::InvalidLogoutToken(_)));
        assert!(invalid, "{received:?}");
    }
    assert!(!has_ended(&gateway, &session).await);
    assert_eq!(gateway.inner.replica.revocations.count(), 0);
}

#[tokio::test]
async fn keys_of_an_iam_without_logout_tokens_are_never_fetched() {
    let without_logout_tokens = TestGateway::new();
    let other = test_gateway();
    let token = token(&other, Some("alice"), None, START);
    let received = receive(&without_logout_tokens, &token).await;
    assert_eq!(received, Err(GatewayError::NoLogoutTokens));
    assert_eq!(without_logout_tokens.iam.total_calls(), 0);
}

/// A login whose response arrives after the logout token of its subject.
#[tokio::test]
async fn login_sent_before_a_logout_token_for_its_subject_is_ended_by_it_at_every_replica() {
    let (here, replicas) = RecordingReplicas::of(&test_gateway());
    let there = here.replica();
    let (login, call) = here.login_in_flight().await;
    here.clock.advance(SECOND);
    let notice = token(&here, Some("alice"), None, START + 1);
    receive(&here, &notice).await.unwrap();
    here.clock.advance(2 * SECOND);
    call.reply(Reply::Model);
    let session = login.await.unwrap();
    assert_eq!(session.verified_at, START + 3, "the time of the response");
    // Sent after the logout token.
    let later = here.log_in("alice").await;
    for sent in replicas.sent() {
        there.apply_remote(&sent);
    }
    for gateway in [&here, &there] {
        assert!(has_ended(gateway, &session).await);
        assert!(!has_ended(gateway, &later).await);
    }
}

/// The session exists at the IAM before the gateway has the response.
#[tokio::test]
async fn login_whose_upstream_session_ended_before_its_response_gets_no_token() {
    let gateway = test_gateway();
    let (login, call) = gateway.login_in_flight().await;
    let notice = token(&gateway, None, Some("upstream-1"), START);
    receive(&gateway, &notice).await.unwrap();
    gateway.clock.advance(SECOND);
    call.reply(Reply::Model);
    assert!(has_ended(&gateway, &login.await.unwrap()).await);
}

/// The logout token arrives a second after the start of the login, and its clock has the maximum skew.
#[tokio::test]
async fn login_sent_before_a_logout_token_is_ended_by_it_with_any_clock_skew() {
    // The seconds by which the IAM's clock is behind and ahead.
    for (behind, ahead) in [(59, 0), (0, 60)] {
        let gateway = test_gateway();
        gateway.clock.advance(60 * SECOND);
        let (login, call) = gateway.login_in_flight().await;
        gateway.clock.advance(SECOND);
        let notice = token(&gateway, Some("alice"), None, START + 61 + ahead - behind);
        receive(&gateway, &notice).await.unwrap();
        gateway.clock.advance(SECOND);
        call.reply(Reply::Model);
        assert!(has_ended(&gateway, &login.await.unwrap()).await);
        assert!(!has_ended(&gateway, &gateway.log_in("alice").await).await);
    }
}
