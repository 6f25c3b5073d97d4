//! Which attempts count.

use super::*;

const ALICE: &str = "alice@example.test";

#[test]
fn account_has_ten_refusals_and_then_one_in_thirty_seconds() {
    let mut limiter = TestLimiter::new(login_limits());
    for _ in 0..10 {
        assert!(limiter.refused(ALICE, None));
    }
    let more = limiter.log_in(ALICE, RIGHT, None);
    assert_eq!(limited_by(&more), Some((Limit::Account, 30.0)));
    limiter.advance(29);
    let more = limiter.log_in(ALICE, RIGHT, None);
    assert_eq!(limited_by(&more), Some((Limit::Account, 1.0)));
    limiter.advance(1);
    assert!(limiter.refused(ALICE, None));
    assert!(!limiter.refused(ALICE, None));
    limiter.advance(300);
    assert_eq!((0..20).filter(|_| limiter.refused(ALICE, None)).count(), 10);
}

#[test]
fn address_has_a_hundred_refusals_and_then_one_in_nine_seconds() {
    let mut limiter = TestLimiter::without_rate(login_limits());
    for number in 0..100 {
        assert!(limiter.refused(&format!("user{number}@example.test"), HOME));
    }
    let more = limiter.log_in(ALICE, RIGHT, HOME);
    assert_eq!(limited_by(&more), Some((Limit::Address, 9.0)));
    assert_eq!(limiter.log_in(ALICE, RIGHT, unrelated_address(1)), Ok(()));
    limiter.advance(9);
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert!(limiter.refused("bob@example.test", HOME));
    assert!(!limiter.refused("bob@example.test", HOME));
}

#[test]
fn successful_logins_of_one_address_or_account_are_not_limited() {
    let mut limiter = TestLimiter::without_rate(login_limits());
    for number in 0..5_000 {
        let email = format!("user{}@example.test", number % 500);
        assert_eq!(limiter.log_in(&email, RIGHT, HOME), Ok(()));
        assert_eq!(limiter.log_in(ALICE, RIGHT, None), Ok(()));
    }
    assert_eq!(limiter.calls, 10_000);
}

#[test]
fn fault_does_not_count_against_its_account() {
    let mut limiter = TestLimiter::new(login_limits());
    for fault in [
        IamError::Unreachable("".into()),
        IamError::TimedOut(Duration::ZERO),
        IamError::Failed(String::new()),
        IamError::Throttled { retry_after: None },
        IamError::Unreadable("".into()),
        IamError::Saturated,
    ] {
        for _ in 0..20 {
            let result = limiter.log_in_with(ALICE, RIGHT, Some(HOME), |_| Err(fault.clone()));
            assert_eq!(result, Err(fault.clone().into()));
            limiter.advance(1);
        }
    }
    assert_eq!((0..20).filter(|_| limiter.refused(ALICE, HOME)).count(), 10);
}

/// So that no address can go on with calls that make a circuit open.
#[test]
fn fault_that_may_be_of_one_account_counts_against_the_address() {
    for (fault, counts) in [
        (IamError::Disconnected("".into()), true),
        (IamError::TimedOut(Duration::ZERO), true),
        (IamError::Failed(String::new()), true),
        (IamError::Unreadable("".into()), true),
        (IamError::Unreachable("".into()), false),
        (IamError::Throttled { retry_after: None }, false),
        (IamError::Saturated, false),
        (IamError::CircuitOpen, false),
    ] {
        let mut limiter = TestLimiter::without_rate(login_limits());
        for number in 0..100 {
            let email = format!("user{number}@example.test");
            let failed = limiter.log_in_with(&email, RIGHT, Some(HOME), |_| Err(fault.clone()));
            assert_eq!(failed, Err(fault.clone().into()));
        }
        let more = limiter.admit(Some(HOME), None);
        assert_eq!(limit_of(&more), counts.then_some(Limit::Address), "{fault}");
    }
}

#[test]
fn account_whose_logins_fail_does_not_use_up_the_attempts_of_its_address() {
    let mut limiter = TestLimiter::without_rate(login_limits());
    let fault = IamError::Failed(String::new());
    for _ in 0..3_600 {
        for _ in 0..2 {
            let failed = limiter.log_in_with(ALICE, RIGHT, Some(HOME), |_| Err(fault.clone()));
            assert_eq!(failed, Err(fault.clone().into()));
        }
        limiter.advance(1);
    }
    assert_eq!(limiter.log_in("bob@example.test", RIGHT, HOME), Ok(()));
}

#[test]
fn possible_refusal_counts_as_a_refusal_and_stays_the_fault() {
    let mut limiter = TestLimiter::without_rate(login_limits());
    let fault = IamError::Unreadable("status 400".into());
    let possible = IamError::PossibleRefusal(Box::new(fault));
    for _ in 0..10 {
        let result = limiter.log_in_with(ALICE, "x", Some(HOME), |_| Err(possible.clone()));
        assert_eq!(result, Err(GatewayError::Broken(possible.clone())));
    }
    let more = limiter.log_in(ALICE, RIGHT, HOME);
    assert_eq!(limit_of(&more), Some(Limit::Account));
    for number in 0..90 {
        let email = format!("user{number}@example.test");
        let _ = limiter.log_in_with(&email, "x", Some(HOME), |_| Err(possible.clone()));
    }
    let more = limiter.log_in("bob@example.test", RIGHT, HOME);
    assert_eq!(limit_of(&more), Some(Limit::Address));
}

#[test]
fn empty_password_counts_as_a_refusal_without_a_call_to_the_iam() {
    let mut limiter = TestLimiter::new(login_limits());
    for number in 0..100 {
        let email = format!("user{number}@example.test");
        let empty = limiter.log_in(&email, "", HOME);
        assert!(matches!(empty, Err(GatewayError::Refused(_))), "{empty:?}");
    }
    assert_eq!(limiter.calls, 0);
    let more = limiter.log_in(ALICE, "", HOME);
    assert_eq!(limited_by(&more), Some((Limit::Address, 9.0)));
    for _ in 0..10 {
        let _ = limiter.log_in(ALICE, "", None);
    }
    assert!(!limiter.refused(ALICE, None));
    assert_eq!(limiter.calls, 0);
}

#[test]
fn attempts_in_flight_count_against_the_limit_and_a_cancelled_one_counts_as_failed() {
    let mut limiter = TestLimiter::new(login_limits());
    let credentials = Credentials::new(ALICE.to_owned(), "x".into()).unwrap();
    let begin = || limiter.attempt(&credentials, None, pending());
    let mut in_flight: Vec<_> = (0..10).map(|_| begin()).collect();
    for attempt in &mut in_flight {
        assert_eq!(attempt.now_or_never(), None);
    }
    let more = begin().now_or_never().expect("no wait");
    assert_eq!(limit_of(&more), Some(Limit::Account));
    drop(in_flight);
    assert!(!limiter.refused(ALICE, None));
    limiter.advance(30);
    assert!(limiter.refused(ALICE, None));
    assert!(!limiter.refused(ALICE, None));
}

#[test]
fn attempts_in_flight_count_against_the_limit_of_their_address() {
    let limiter = TestLimiter::new(login_limits());
    let credentials = (0..101).map(|number| format!("user{number}@example.test"));
    let credentials: Vec<_> = credentials
        .map(|email| Credentials::new(email, "x".into()).unwrap())
        .collect();
    let mut attempts: Vec<_> = credentials
        .iter()
        .map(|one| limiter.attempt(one, Some(HOME), pending()))
        .collect();
    let responses = attempts
        .iter_mut()
        .filter_map(futures_util::FutureExt::now_or_never);
    let limits: Vec<_> = responses.map(|response| limit_of(&response)).collect();
    assert_eq!(limits, [Some(Limit::Address)]);
}

#[test]
fn attempt_refused_by_one_limit_does_not_count_for_another() {
    let mut limiter = TestLimiter::new(login_limits());
    for _ in 0..10 {
        assert!(limiter.refused(ALICE, None));
    }
    // The account is at its limit, so these do not count for the address and the replica.
    for _ in 0..1_000 {
        assert!(!limiter.refused(ALICE, HOME));
    }
    for number in 0..20 {
        assert!(limiter.refused(&format!("user{number}@example.test"), HOME));
    }
    let more = limiter.log_in("user20@example.test", "wrong", HOME);
    assert_eq!(limit_of(&more), Some(Limit::Replica));
    // Thirty reached the IAM, and attempts refused by the replica limit count for no account.
    assert_eq!(limiter.calls, 30);
    for _ in 0..100 {
        assert!(!limiter.refused("user20@example.test", None));
    }
    limiter.advance(60);
    assert!(limiter.refused("user20@example.test", None));
}

#[test]
fn zero_is_unlimited() {
    let none = |bound| Bound { most: 0, ..bound };
    let mut limiter = TestLimiter::without_rate(Limits {
        account: none(login_limits().account),
        account_slow: SlowRate {
            after: 0,
            ..login_limits().account_slow
        },
        account_sessions: none(login_limits().account_sessions),
        address: none(login_limits().address),
    });
    assert!((0..2_000).all(|_| limiter.refused(ALICE, HOME)));
}

#[test]
fn suspending_the_machine_removes_no_failure_early() {
    let mut limiter = TestLimiter::new(login_limits());
    while limiter.refused(ALICE, None) {}
    limiter.clock.set_wall(START + Duration::from_secs(86_400));
    assert!(!limiter.refused(ALICE, None));
    limiter.clock.set_wall(Duration::ZERO);
    assert!(!limiter.refused(ALICE, None));
}
