//! When the IAM is asked for its keys, and when it is not.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::house::{House, Iam, claims, header};
use super::*;
use crate::error::IamError;
use test_support::LogoutSigner;

const SECOND: Duration = Duration::from_secs(1);

async fn good(house: &House) -> bool {
    house.verify(&header(house), &claims(house)).await.is_ok()
}

#[tokio::test]
async fn the_keys_are_asked_for_when_they_are_first_needed_and_again_after_ten_minutes() {
    let house = House::new();
    assert_eq!(house.asked(), 0);
    for _ in 0..3 {
        assert!(good(&house).await);
    }
    assert_eq!(house.asked(), 1);
    house.clock.advance(Duration::from_secs(599));
    assert!(good(&house).await);
    assert_eq!(house.asked(), 1);
    house.clock.advance(SECOND);
    assert!(good(&house).await);
    assert_eq!(house.asked(), 2);
}

#[tokio::test]
async fn a_key_that_the_iam_has_withdrawn_is_believed_for_ten_minutes_at_most() {
    let house = House::new();
    assert!(good(&house).await);
    house.publishes(&Arc::new(LogoutSigner::generate().unwrap()));
    house.clock.advance(Duration::from_secs(600));
    let token = house.sign(&header(&house), &claims(&house));
    assert_eq!(
        house.why(&token).await,
        Some(InvalidLogoutToken::UnknownKey)
    );
}

#[tokio::test]
async fn a_new_key_is_asked_for_at_once() {
    let mut house = House::new();
    assert!(good(&house).await);
    house.clock.advance(Duration::from_secs(10));
    house.signer = Arc::new(LogoutSigner::generate().unwrap());
    house.publishes(&house.signer);
    assert!(good(&house).await);
    assert_eq!(house.asked(), 2);
}

#[tokio::test]
async fn made_up_keys_are_asked_for_once_in_ten_seconds_and_disturb_no_genuine_token() {
    let house = House::new();
    for second in 0..60 {
        for number in 0..20 {
            let forged = house.naming(&format!("made-up-{second}-{number}"));
            let why = house.why(&forged).await;
            assert_eq!(why, Some(InvalidLogoutToken::UnknownKey));
        }
        assert!(good(&house).await);
        house.clock.advance(SECOND);
    }
    assert_eq!(house.asked(), 6);
}

#[tokio::test]
async fn where_the_keys_cannot_be_had_nothing_is_accepted_and_nothing_called_invalid() {
    let house = House::new();
    let fault = IamError::Unreachable("refused".to_owned());
    let says = fault.clone();
    house.says(move || Err(says.clone()));
    let no_keys = Err(LogoutTokenError::NoKeys(fault));
    for _ in 0..3 {
        let told = house.verify(&header(&house), &claims(&house)).await;
        assert_eq!(told, no_keys);
    }
    assert_eq!(house.asked(), 1, "and the IAM is left alone for a while");
    house.clock.advance(Duration::from_secs(10));
    house.publishes(&house.signer);
    assert!(good(&house).await);
    assert_eq!(house.asked(), 2);
}

#[tokio::test]
async fn an_iam_that_does_not_answer_leaves_the_old_keys_in_use_for_an_hour() {
    let house = House::new();
    assert!(good(&house).await);
    house.says(|| Err(IamError::Failed("503".to_owned())));
    for minutes in [10, 10, 39] {
        house.clock.advance(60 * minutes * SECOND);
        assert!(good(&house).await, "{minutes} later");
        // A key that is not among the old ones may be a new one.
        let unknown = house.tokens.verify(&house.naming("another")).await;
        assert!(matches!(unknown, Err(LogoutTokenError::NoKeys(_))));
    }
    house.clock.advance(60 * SECOND);
    let told = house.verify(&header(&house), &claims(&house)).await;
    assert!(matches!(told, Err(LogoutTokenError::NoKeys(_))), "{told:?}");
}

#[tokio::test]
async fn the_iam_is_asked_once_for_all_who_wait_and_only_so_many_do() {
    let house = House::with(Iam {
        gate: Some(Semaphore::new(0)),
        ..Iam::default()
    });
    let mut waiting = Vec::new();
    for _ in 0..64 {
        let (tokens, token) = (
            Arc::clone(&house.tokens),
            house.sign(&header(&house), &claims(&house)),
        );
        waiting.push(tokio::spawn(async move { tokens.verify(&token).await }));
    }
    while house.asked() == 0 {
        tokio::task::yield_now().await;
    }
    let another = house.naming("another");
    let beyond = timeout(30 * SECOND, house.tokens.verify(&another)).await;
    let beyond = beyond.expect("it does not wait");
    assert_eq!(beyond, Err(LogoutTokenError::NoKeys(IamError::Saturated)));
    house.iam.gate.as_ref().unwrap().add_permits(1);
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    assert_eq!(house.asked(), 1);
}

#[tokio::test]
async fn where_forged_tokens_take_every_place_to_wait_a_genuine_one_does_not_need_one() {
    let house = House::with(Iam {
        gate: Some(Semaphore::new(1)),
        ..Iam::default()
    });
    assert!(good(&house).await);
    house.clock.advance(Duration::from_secs(600));
    let mut waiting = Vec::new();
    for number in 0..64 {
        let (tokens, token) = (
            Arc::clone(&house.tokens),
            house.naming(&format!("made-up-{number}")),
        );
        waiting.push(tokio::spawn(async move { tokens.verify(&token).await }));
    }
    while house.asked() < 2 {
        tokio::task::yield_now().await;
    }
    let genuine = timeout(30 * SECOND, good(&house)).await;
    assert!(genuine.expect("it does not wait"));
    house.iam.gate.as_ref().unwrap().add_permits(1);
    for one in waiting {
        let unknown = Err(InvalidLogoutToken::UnknownKey.into());
        assert_eq!(one.await.unwrap(), unknown);
    }
}

#[tokio::test]
async fn a_question_goes_on_when_the_one_who_caused_it_gives_up() {
    let house = House::with(Iam {
        gate: Some(Semaphore::new(0)),
        ..Iam::default()
    });
    let token = house.sign(&header(&house), &claims(&house));
    let tokens = Arc::clone(&house.tokens);
    let first = tokio::spawn(async move { tokens.verify(&token).await });
    while house.asked() == 0 {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    house.iam.gate.as_ref().unwrap().add_permits(1);
    assert!(good(&house).await);
    assert_eq!(house.asked(), 1);
}

#[tokio::test]
async fn an_adapter_that_panics_is_asked_again_later() {
    let house = House::new();
    house.says(|| panic!("as the test has it"));
    let told = house.verify(&header(&house), &claims(&house)).await;
    assert!(matches!(told, Err(LogoutTokenError::NoKeys(_))), "{told:?}");
    house.publishes(&house.signer);
    assert!(!good(&house).await, "not at once");
    house.clock.advance(Duration::from_secs(10));
    assert!(good(&house).await);
    assert_eq!(house.asked(), 2);
}
