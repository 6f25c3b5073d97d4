//! The limit of new sessions of an account.

use super::*;

const ALICE: &str = "alice@example.test";

/// The limits with Keycloak.
fn limiter() -> TestLimiter {
    TestLimiter::without_rate(Limits {
        account_sessions: Bound {
            most: 20,
            window: Duration::from_secs(60),
        },
        ..login_limits()
    })
}

#[test]
fn account_begins_twenty_sessions_and_then_one_in_three_seconds_from_unknown_networks() {
    let mut limiter = limiter();
    for number in 0..20 {
        assert_eq!(
            limiter.log_in(ALICE, RIGHT, unrelated_address(number)),
            Ok(())
        );
    }
    for address in [unrelated_address(20), HOME] {
        let more = limiter.log_in("ALICE@example.test", RIGHT, address);
        assert_eq!(limited_by(&more), Some((Limit::AccountSessions, 3.0)));
    }
    assert_eq!(limiter.log_in("bob@example.test", RIGHT, HOME), Ok(()));
    assert_eq!(limiter.calls, 21);
    limiter.advance(3);
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert!(limited_by(&limiter.log_in(ALICE, RIGHT, unrelated_address(20))).is_some());
    limiter.advance(3_600);
    let addresses = (20..1_000).map(unrelated_address);
    let accepted = addresses.filter(|address| limiter.log_in(ALICE, RIGHT, *address).is_ok());
    assert_eq!(accepted.count(), 20);
}

#[test]
fn known_networks_begin_twenty_more_sessions_at_once_at_the_same_rate() {
    let mut limiter = limiter();
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    for (seconds, sessions) in [(3_600, 40), (3, 1), (60, 20)] {
        limiter.advance(seconds);
        let accepted = (0..1_000).filter(|_| limiter.log_in(ALICE, RIGHT, HOME).is_ok());
        assert_eq!(accepted.count(), sessions, "{seconds} s");
        let unknown = limiter.log_in(ALICE, RIGHT, unrelated_address(0));
        assert!(limited_by(&unknown).is_some(), "{seconds} s");
    }
}

#[test]
fn abandoned_logins_from_unknown_networks_do_not_lock_out_the_owner() {
    let mut limiter = TestLimiter::without_rate(Limits {
        account_sessions: Bound {
            most: 20,
            window: Duration::from_secs(60),
        },
        // So nothing else bounds the attempts.
        ..limits_without_refusals_of_accounts()
    });
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    limiter.advance(60);
    let credentials = Credentials::new(ALICE.to_owned(), "x".into()).unwrap();
    let abandoned = (0..100).filter(|number| {
        let address = unrelated_address(*number);
        let attempt = limiter.attempt(&credentials, Some(address), pending());
        attempt.now_or_never().is_none()
    });
    assert_eq!(abandoned.count(), 20);
    let unknown = limiter.log_in(ALICE, RIGHT, unrelated_address(100));
    assert_eq!(limited_by(&unknown), Some((Limit::AccountSessions, 3.0)));
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
}

#[test]
fn concurrent_logins_begin_no_more_sessions_than_the_limit() {
    let limiter = TestLimiter::without_rate(Limits {
        // It would limit concurrent logins too.
        account: Bound {
            most: 1_000,
            ..login_limits().account
        },
        account_sessions: Bound {
            most: 20,
            window: Duration::from_secs(60),
        },
        ..login_limits()
    });
    let credentials = Credentials::new(ALICE.to_owned(), RIGHT.into()).unwrap();
    let calls = std::cell::Cell::new(0);
    let mut logins: Vec<_> = (0..200)
        .map(|number| {
            let calls = &calls;
            let call = async move {
                calls.set(calls.get() + 1);
                pending::<Result<(), IamError>>().await
            };
            limiter.attempt(&credentials, Some(unrelated_address(number)), call)
        })
        .collect();
    let refused: Vec<_> = logins
        .iter_mut()
        .filter_map(futures_util::FutureExt::now_or_never)
        .collect();
    assert_eq!((calls.get(), refused.len()), (20, 180));
    for refused in &refused {
        assert_eq!(limit_of(refused), Some(Limit::AccountSessions));
    }
}

#[test]
fn refused_and_failed_logins_begin_no_session_and_a_cancelled_one_may_have() {
    let mut limiter = limiter();
    for number in 0..5 {
        assert!(limiter.refused(ALICE, unrelated_address(number)));
    }
    for _ in 0..50 {
        let fault = limiter.log_in_with(ALICE, RIGHT, Some(HOME), |_| Err(IamError::Saturated));
        assert_eq!(fault, Err(IamError::Saturated.into()));
    }
    let credentials = Credentials::new(ALICE.to_owned(), RIGHT.into()).unwrap();
    let mut login = limiter.attempt(&credentials, Some(HOME), pending());
    assert!((&mut login).now_or_never().is_none());
    drop(login);
    let addresses = (5..50).map(unrelated_address);
    let accepted = addresses.filter(|address| limiter.log_in(ALICE, RIGHT, *address).is_ok());
    assert_eq!(accepted.count(), 19);
}
