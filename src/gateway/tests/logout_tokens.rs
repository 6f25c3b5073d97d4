//! What a logout token ends, and what it leaves.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::resilient::Operation;
use test_support::LogoutSigner;

use super::elsewhere::Notebook;
use super::house::{House, LIVENESS, START, Session, active, policy};
use super::scripted::{CLIENT, Reply, Scripted};
use crate::gateway::error::{GatewayError, InvalidSession};

const OVER: GatewayError = GatewayError::InvalidSession(InvalidSession::Ended);
const SECOND: Duration = Duration::from_secs(1);

fn house() -> House {
    let iam = Scripted {
        signer: LogoutSigner::generate(),
        ..Scripted::default()
    };
    House::with(iam, policy())
}

/// A token issued at a second of the IAM's clock.
fn token(house: &House, subject: Option<&str>, session: Option<&str>, at: u64) -> String {
    let parties = (house.iam.issuer, CLIENT);
    let signer = house.iam.signer.as_ref().unwrap();
    let token = signer.logout_token(parties, subject, session, at);
    token.unwrap()
}

async fn tell(house: &House, token: &str) -> Result<Ended, GatewayError> {
    house.gateway.receive_logout_token(token).await
}

async fn is_over(house: &House, session: &Session) -> bool {
    match house.granted(session).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, OVER);
            true
        }
    }
}

#[tokio::test]
async fn a_session_that_is_named_is_over_whether_its_subject_is_named_or_not() {
    for subject in [None, Some("alice")] {
        let house = house();
        let (named, other) = (house.log_in("alice").await, house.log_in("alice").await);
        let told = tell(&house, &token(&house, subject, Some("upstream-1"), START)).await;
        assert_eq!(told, Ok(Ended::Session("upstream-1".to_owned())));
        assert!(is_over(&house, &named).await);
        assert!(!is_over(&house, &other).await);
        assert_eq!(house.introspections(), 0);
        house.log_out(&named).await.unwrap();
        assert_eq!(
            house.iam.calls(Operation::Logout),
            0,
            "there is nothing to end"
        );
    }
}

#[tokio::test]
async fn a_subject_alone_ends_all_its_sessions_up_to_the_second_of_the_notice() {
    let house = house();
    let early = house.log_in("alice").await;
    house.clock.advance(SECOND);
    // In the same second, nobody can tell which came first.
    let same = house.log_in("alice").await;
    let bob = house.log_in("bob").await;
    let notice = token(&house, Some("alice"), None, START + 1);
    tell(&house, &notice).await.unwrap();
    house.clock.advance(SECOND);
    let late = house.log_in("alice").await;
    assert!(is_over(&house, &early).await);
    assert!(is_over(&house, &same).await);
    assert!(!is_over(&house, &late).await);
    assert!(!is_over(&house, &bob).await);
}

#[tokio::test]
async fn clocks_that_disagree_save_no_session_and_end_no_later_one() {
    // By how many seconds the IAM's clock is behind ours, and ahead of it.
    for (behind, ahead) in [(59, 0), (30, 0), (0, 30), (0, 60)] {
        let house = house();
        house.clock.advance(60 * SECOND);
        let now = START + 60;
        let before = house.log_in("alice").await;
        let notice = token(&house, Some("alice"), None, now + ahead - behind);
        tell(&house, &notice).await.unwrap();
        house.clock.advance(SECOND);
        let after = house.log_in("alice").await;
        assert!(is_over(&house, &before).await, "-{behind} +{ahead}");
        assert!(!is_over(&house, &after).await, "-{behind} +{ahead}");
    }
}

#[tokio::test]
async fn a_notice_that_was_long_on_its_way_ends_only_what_may_have_been_before_it() {
    let house = house();
    let notice = token(&house, Some("alice"), None, START);
    house.clock.advance(60 * SECOND);
    let perhaps = house.log_in("alice").await;
    house.clock.advance(SECOND);
    let certainly_later = house.log_in("alice").await;
    house.clock.advance(58 * SECOND);
    tell(&house, &notice).await.unwrap();
    assert!(is_over(&house, &perhaps).await);
    assert!(!is_over(&house, &certainly_later).await);
}

#[tokio::test]
async fn a_notice_that_comes_while_the_iam_is_asked_wins() {
    let house = house();
    let session = house.log_in("alice").await;
    house.clock.advance(LIVENESS);
    let mut calls = house.iam.hold(Operation::Introspection);
    let exchange = house.begin_exchange(&session);
    let call = calls.next().await;
    let now = START + LIVENESS.as_secs();
    let notice = token(&house, None, Some("upstream-1"), now);
    tell(&house, &notice).await.unwrap();
    call.reply(active("alice", "read write"));
    assert_eq!(exchange.await.unwrap().err(), Some(OVER));
    // What came after the notice revives nothing.
    assert!(is_over(&house, &session).await);
}

#[tokio::test]
async fn a_notice_is_taken_once_and_one_that_met_a_fault_may_be_repeated() {
    let house = house();
    let session = house.log_in("alice").await;
    let notice = token(&house, Some("alice"), None, START);
    let fault = IamError::Unreachable("refused".to_owned());
    house
        .iam
        .script(Operation::Keys, Reply::Fault(fault.clone()));
    let told = tell(&house, &notice).await;
    assert_eq!(told, Err(GatewayError::Unavailable(fault)));
    assert!(!is_over(&house, &session).await);
    house.clock.advance(10 * SECOND);
    tell(&house, &notice).await.unwrap();
    assert!(is_over(&house, &session).await);
    let replayed = GatewayError::InvalidLogoutToken(InvalidLogoutToken::Replayed);
    assert_eq!(tell(&house, &notice).await, Err(replayed));
    assert_eq!(house.iam.calls(Operation::Keys), 2);
}

#[tokio::test]
async fn an_invalid_token_ends_nothing() {
    let house = house();
    let session = house.log_in("alice").await;
    let signer = LogoutSigner::generate().unwrap();
    let stranger = signer.logout_token((house.iam.issuer, CLIENT), None, Some("upstream-1"), START);
    for token in ["", "a.b.c", &stranger.unwrap()] {
        let told = tell(&house, token).await;
        let invalid = matches!(told, Err(GatewayError::InvalidLogoutToken(_)));
        assert!(invalid, "{told:?}");
    }
    assert!(!is_over(&house, &session).await);
    assert_eq!(house.gateway.session_ends().revocations().count(), 0);
}

#[tokio::test]
async fn an_iam_that_sends_no_logout_tokens_is_never_asked_for_keys() {
    let silent = House::new();
    let other = house();
    let token = token(&other, Some("alice"), None, START);
    let told = tell(&silent, &token).await;
    assert_eq!(told, Err(GatewayError::NoLogoutTokens));
    assert_eq!(silent.iam.calls_in_all(), 0);
}

/// A login whose answer is on its way while the subject's logout token arrives.
#[tokio::test]
async fn login_sent_before_a_logout_token_for_its_subject_is_ended_by_it_at_every_replica() {
    let here = house();
    let there = here.replica();
    let replicas = Notebook::of(&here);
    let mut calls = here.iam.hold(Operation::Login);
    let login = {
        let here = here.clone();
        tokio::spawn(async move { here.log_in("alice").await })
    };
    let call = calls.next().await;
    here.iam.let_go(Operation::Login);
    here.clock.advance(SECOND);
    let notice = token(&here, Some("alice"), None, START + 1);
    tell(&here, &notice).await.unwrap();
    here.clock.advance(2 * SECOND);
    call.reply(Reply::Model);
    let session = login.await.unwrap();
    assert_eq!(session.verified_at, START + 3, "when the IAM had answered");
    // Sent after the logout token.
    let later = here.log_in("alice").await;
    for told in replicas.told() {
        there.gateway.session_ends().learn(&told);
    }
    for house in [&here, &there] {
        assert!(is_over(house, &session).await);
        assert!(!is_over(house, &later).await);
    }
}

/// The session exists at the IAM before the gateway has its answer.
#[tokio::test]
async fn login_whose_upstream_session_ended_while_its_answer_was_under_way_gets_no_token() {
    let house = house();
    let mut calls = house.iam.hold(Operation::Login);
    let login = {
        let house = house.clone();
        tokio::spawn(async move { house.log_in("alice").await })
    };
    let call = calls.next().await;
    house.iam.let_go(Operation::Login);
    let notice = token(&house, None, Some("upstream-1"), START);
    tell(&house, &notice).await.unwrap();
    house.clock.advance(SECOND);
    call.reply(Reply::Model);
    assert!(is_over(&house, &login.await.unwrap()).await);
}

/// The login is sent, and a second later the logout token arrives, dated by a clock that is wrong
/// by as much as is tolerated.
#[tokio::test]
async fn login_sent_before_a_logout_token_is_ended_by_it_whatever_the_clock_of_the_iam_says() {
    // By how many seconds the IAM's clock is behind ours, and ahead of it.
    for (behind, ahead) in [(59, 0), (0, 60)] {
        let house = house();
        house.clock.advance(60 * SECOND);
        let mut calls = house.iam.hold(Operation::Login);
        let login = {
            let house = house.clone();
            tokio::spawn(async move { house.log_in("alice").await })
        };
        let call = calls.next().await;
        house.iam.let_go(Operation::Login);
        house.clock.advance(SECOND);
        let notice = token(&house, Some("alice"), None, START + 61 + ahead - behind);
        tell(&house, &notice).await.unwrap();
        house.clock.advance(SECOND);
        call.reply(Reply::Model);
        assert!(is_over(&house, &login.await.unwrap()).await);
        assert!(!is_over(&house, &house.log_in("alice").await).await);
    }
}
