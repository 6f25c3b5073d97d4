//! When the keys are fetched.

use std::time::Duration;

use tokio::time::timeout;

use super::fixture::{Fixture, claims, header};
use super::*;
use crate::error::IamError;
use crate::scripted_adapter::ScriptedAdapter;
use test_support::LogoutSigner;

const SECOND: Duration = Duration::from_secs(1);

async fn is_accepted(fixture: &Fixture) -> bool {
    fixture
        .verify(&header(fixture), &claims(fixture))
        .await
        .is_ok()
}

#[tokio::test]
async fn keys_are_fetched_at_first_use_and_again_after_ten_minutes() {
    let fixture = Fixture::new();
    assert_eq!(fixture.fetches(), 0);
    for _ in 0..3 {
        assert!(is_accepted(&fixture).await);
    }
    assert_eq!(fixture.fetches(), 1);
    fixture.clock.advance(Duration::from_secs(599));
    assert!(is_accepted(&fixture).await);
    assert_eq!(fixture.fetches(), 1);
    fixture.clock.advance(SECOND);
    assert!(is_accepted(&fixture).await);
    assert_eq!(fixture.fetches(), 2);
}

#[tokio::test]
async fn withdrawn_key_is_accepted_for_at_most_ten_minutes() {
    let fixture = Fixture::new();
    assert!(is_accepted(&fixture).await);
    fixture.publish(&LogoutSigner::generate().unwrap());
    fixture.clock.advance(Duration::from_secs(600));
    let token = fixture.sign(&header(&fixture), &claims(&fixture));
    assert_eq!(
        fixture.refusal(&token).await,
        Some(InvalidLogoutToken::UnknownKey)
    );
}

#[tokio::test]
async fn new_key_is_fetched_at_once() {
    let mut fixture = Fixture::new();
    assert!(is_accepted(&fixture).await);
    fixture.clock.advance(Duration::from_secs(10));
    fixture.signer = LogoutSigner::generate().unwrap();
    fixture.publish(&fixture.signer);
    assert!(is_accepted(&fixture).await);
    assert_eq!(fixture.fetches(), 2);
}

#[tokio::test]
async fn unknown_key_ids_cause_one_fetch_in_ten_seconds_and_valid_tokens_are_accepted() {
    let fixture = Fixture::new();
    for second in 0..60 {
        for number in 0..20 {
            let forged = fixture.with_key_id(&format!("unknown-{second}-{number}"));
            let why = fixture.refusal(&forged).await;
            assert_eq!(why, Some(InvalidLogoutToken::UnknownKey));
        }
        assert!(is_accepted(&fixture).await);
        fixture.clock.advance(SECOND);
    }
    assert_eq!(fixture.fetches(), 6);
}

#[tokio::test]
async fn without_keys_no_token_is_accepted_and_none_is_called_invalid() {
    let fixture = Fixture::new();
    let fault = IamError::Unreachable("refused".into());
    fixture.iam.set_fault(Some(fault.clone()));
    let no_keys = Err(LogoutTokenError::NoKeys(fault));
    for _ in 0..3 {
        let verified = fixture.verify(&header(&fixture), &claims(&fixture)).await;
        assert_eq!(verified, no_keys);
    }
    assert_eq!(fixture.fetches(), 1, "no further fetch for a while");
    fixture.clock.advance(Duration::from_secs(10));
    fixture.iam.set_fault(None);
    assert!(is_accepted(&fixture).await);
    assert_eq!(fixture.fetches(), 2);
}

#[tokio::test]
async fn old_keys_are_used_for_an_hour_if_the_iam_does_not_respond() {
    let fixture = Fixture::new();
    assert!(is_accepted(&fixture).await);
    let fault = IamError::Failed("503".to_owned());
    fixture.iam.set_fault(Some(fault));
    for minutes in [10, 10, 39] {
        fixture.clock.advance(60 * minutes * SECOND);
        assert!(is_accepted(&fixture).await, "{minutes} later");
        // An unknown key may be a new one.
        let unknown = fixture.tokens.verify(&fixture.with_key_id("another")).await;
        assert!(matches!(unknown, Err(LogoutTokenError::NoKeys(_))));
    }
    fixture.clock.advance(60 * SECOND);
    let verified = fixture.verify(&header(&fixture), &claims(&fixture)).await;
    let no_keys = matches!(verified, Err(LogoutTokenError::NoKeys(_)));
    assert!(no_keys, "{verified:?}");
}

#[tokio::test]
async fn waiting_tokens_share_one_fetch_and_their_number_is_bounded() {
    let fixture = Fixture::with(ScriptedAdapter::gated(0));
    let mut waiting = Vec::new();
    for _ in 0..64 {
        let (tokens, token) = (
            Arc::clone(&fixture.tokens),
            fixture.sign(&header(&fixture), &claims(&fixture)),
        );
        waiting.push(tokio::spawn(async move { tokens.verify(&token).await }));
    }
    while fixture.fetches() == 0 {
        tokio::task::yield_now().await;
    }
    let another = fixture.with_key_id("another");
    let beyond = timeout(30 * SECOND, fixture.tokens.verify(&another)).await;
    let beyond = beyond.expect("it does not wait");
    assert_eq!(beyond, Err(LogoutTokenError::NoKeys(IamError::Saturated)));
    fixture.iam.release(1);
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    assert_eq!(fixture.fetches(), 1);
}

#[tokio::test]
async fn valid_token_is_verified_while_forged_tokens_use_all_permits() {
    let fixture = Fixture::with(ScriptedAdapter::gated(1));
    assert!(is_accepted(&fixture).await);
    fixture.clock.advance(Duration::from_secs(600));
    let mut waiting = Vec::new();
    for number in 0..64 {
        let (tokens, token) = (
            Arc::clone(&fixture.tokens),
            fixture.with_key_id(&format!("unknown-{number}")),
        );
        waiting.push(tokio::spawn(async move { tokens.verify(&token).await }));
    }
    while fixture.fetches() < 2 {
        tokio::task::yield_now().await;
    }
    let valid = timeout(30 * SECOND, is_accepted(&fixture)).await;
    assert!(valid.expect("it does not wait"));
    fixture.iam.release(1);
    for one in waiting {
        let unknown = Err(InvalidLogoutToken::UnknownKey.into());
        assert_eq!(one.await.unwrap(), unknown);
    }
}

#[tokio::test]
async fn fetch_continues_if_its_caller_is_cancelled() {
    let fixture = Fixture::with(ScriptedAdapter::gated(0));
    let token = fixture.sign(&header(&fixture), &claims(&fixture));
    let tokens = Arc::clone(&fixture.tokens);
    let first = tokio::spawn(async move { tokens.verify(&token).await });
    while fixture.fetches() == 0 {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    fixture.iam.release(1);
    assert!(is_accepted(&fixture).await);
    assert_eq!(fixture.fetches(), 1);
}

#[tokio::test]
async fn keys_are_fetched_again_after_a_panic_of_the_adapter() {
    let fixture = Fixture::new();
    fixture.iam.set_panics(true);
    let verified = fixture.verify(&header(&fixture), &claims(&fixture)).await;
    let no_keys = matches!(verified, Err(LogoutTokenError::NoKeys(_)));
    assert!(no_keys, "{verified:?}");
    fixture.iam.set_panics(false);
    assert!(!is_accepted(&fixture).await, "not at once");
    fixture.clock.advance(Duration::from_secs(10));
    assert!(is_accepted(&fixture).await);
    assert_eq!(fixture.fetches(), 2);
}
