//! The slow rate after many failures in a row, separate for known and unknown networks.

use super::*;

const ALICE: &str = "alice@example.test";

fn limiter() -> TestLimiter {
    TestLimiter::without_rate(defaults())
}

/// Fails every 30 seconds, each time from another network. Returns how many attempts reached the IAM.
fn fail_slowly(limiter: &mut TestLimiter, email: &str, attempts: usize) -> usize {
    let mut reached = 0;
    for number in 0..attempts {
        reached += usize::from(limiter.refused(email, unrelated_address(number)));
        limiter.advance(30);
    }
    reached
}

#[test]
fn after_fifty_failures_in_a_row_four_an_hour_reach_the_iam() {
    for email in [ALICE, "unknown@example.test"] {
        let mut limiter = limiter();
        assert_eq!(fail_slowly(&mut limiter, email, 50), 50);
        // An hour, and each hour of a day.
        for _ in 0..24 {
            assert_eq!(fail_slowly(&mut limiter, email, 120), 4);
        }
        assert_eq!(limiter.calls, 50 + 24 * 4);
    }
}

#[test]
fn of_160_failures_53_reach_the_iam_and_the_right_password_is_limited_too() {
    let mut limiter = limiter();
    let reached = fail_slowly(&mut limiter, ALICE, 160);
    assert_eq!(reached, 50 + 3);
    let right = limiter.log_in(ALICE, RIGHT, unrelated_address(1_000));
    let (limit, wait) = limited_by(&right).expect("a limit");
    assert_eq!(limit, Limit::AccountSlow);
    assert!(wait > 0.0 && wait <= 900.0, "{wait}");
    limiter.clock.advance(Duration::from_secs_f64(wait));
    // One of the four per hour.
    assert_eq!(
        limiter.log_in(ALICE, RIGHT, unrelated_address(1_001)),
        Ok(())
    );
}

#[test]
fn known_network_counts_its_own_failures_in_a_row() {
    let mut limiter = limiter();
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert_eq!(fail_slowly(&mut limiter, ALICE, 60), 50);
    // The known network is not affected, and its success does not end the slow rate of others.
    for _ in 0..10 {
        assert!(limiter.refused(ALICE, HOME));
        limiter.advance(30);
    }
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    let unknown = limiter.log_in(ALICE, RIGHT, unrelated_address(1_000));
    let slow = limited_by(&unknown).map(|(limit, _)| limit);
    assert_eq!(slow, Some(Limit::AccountSlow));
    // The success has reset the failures of the known network: fifty more are allowed.
    let mut home = 0;
    for _ in 0..60 {
        home += usize::from(limiter.refused(ALICE, HOME));
        limiter.advance(30);
    }
    assert_eq!(home, 50);
}

#[test]
fn success_from_an_unknown_network_resets_the_failures_of_unknown_networks() {
    let mut limiter = limiter();
    assert_eq!(fail_slowly(&mut limiter, ALICE, 49), 49);
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert_eq!(fail_slowly(&mut limiter, ALICE, 60), 50);
}

#[test]
fn concurrent_attempts_are_limited_and_one_is_in_flight_at_the_slow_rate() {
    let mut limiter = TestLimiter::without_rate(Limits {
        account: Bound {
            most: 1_000,
            ..defaults().account
        },
        ..defaults()
    });
    let credentials = Credentials::new(ALICE.to_owned(), "x".into()).unwrap();
    // All are cancelled at the end, which counts as a failure.
    let started = |limiter: &TestLimiter| {
        let mut in_flight = Vec::new();
        for _ in 0..100 {
            let call = pending::<Result<(), IamError>>();
            let mut attempt = Box::pin(limiter.login_limiter.limit(
                limiter.login_limiter.account(credentials.email()),
                &credentials,
                None,
                None,
                call,
            ));
            if (&mut attempt).now_or_never().is_none() {
                in_flight.push(attempt);
            }
        }
        in_flight.len()
    };
    assert_eq!(started(&limiter), 50);
    limiter.advance(900);
    assert_eq!(started(&limiter), 1);
    limiter.advance(899);
    assert!(!limiter.refused(ALICE, None));
}

#[test]
fn fault_and_empty_password_do_not_count_as_failures_in_a_row() {
    let mut limiter = limiter();
    assert_eq!(fail_slowly(&mut limiter, ALICE, 49), 49);
    for _ in 0..20 {
        let fault = limiter.log_in_with(ALICE, RIGHT, None, |_| Err(IamError::Saturated));
        assert_eq!(fault, Err(IamError::Saturated.into()));
        let empty = limiter.log_in(ALICE, "", None);
        assert!(matches!(empty, Err(GatewayError::Refused(_))), "{empty:?}");
        limiter.advance(30);
    }
    assert!(limiter.refused(ALICE, None));
    limiter.advance(30);
    assert!(!limiter.refused(ALICE, None));
}

#[test]
fn failures_in_a_row_expire_after_one_interval_each() {
    let mut limiter = limiter();
    assert_eq!(fail_slowly(&mut limiter, ALICE, 50), 50);
    limiter.advance(50 * 900 - 30 - 1);
    assert!(limiter.refused(ALICE, None), "one of four per hour");
    limiter.advance(1);
    assert!(!limiter.refused(ALICE, None), "still at the slow rate");
    limiter.advance(50 * 900);
    assert_eq!(fail_slowly(&mut limiter, ALICE, 60), 50);
}

#[test]
fn operator_can_reset_the_failures_of_an_account() {
    let mut limiter = limiter();
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    for _ in 0..60 {
        for address in [HOME, unrelated_address(1)] {
            limiter.refused(ALICE, address);
        }
        limiter.advance(30);
    }
    let forget = |limiter: &TestLimiter, email: &str, address: Option<IpAddr>| {
        let account = limiter
            .login_limiter
            .clear_failures(email, address.map(Into::into));
        assert_eq!(account, limiter.login_limiter.account(email));
    };
    forget(&limiter, "bob@example.test", None);
    assert!(!limiter.refused(ALICE, unrelated_address(2)));
    forget(&limiter, " ALICE@example.test", None);
    assert!(limiter.refused(ALICE, unrelated_address(2)));
    assert!(!limiter.refused(ALICE, HOME));
    forget(&limiter, ALICE, Some(HOME));
    assert_eq!((0..20).filter(|_| limiter.refused(ALICE, HOME)).count(), 10);
    assert_eq!(limiter.log_in(ALICE, RIGHT, unrelated_address(3)), Ok(()));
}

#[test]
fn flood_before_or_after_does_not_allow_more_guesses() {
    let mut limiter = TestLimiter::new(defaults());
    let mut numbers = 0..;
    // As many as the replica limit allows, each for another account, for longer than one failure is
    // kept.
    let mut flood = |limiter: &mut TestLimiter, seconds: u64| {
        for _ in 0..seconds {
            for number in numbers.by_ref().take(30) {
                let email = format!("user{number}@example.test");
                assert!(limiter.refused(&email, unrelated_address(1_000_000 + number)));
            }
            limiter.advance(1);
        }
    };
    flood(&mut limiter, 1_000);
    assert_eq!(fail_slowly(&mut limiter, ALICE, 60), 50);
    flood(&mut limiter, 1_000);
    assert_eq!(fail_slowly(&mut limiter, ALICE, 29), 1);
    assert_eq!(limiter.login_limiter.untracked(), 0);
}

#[test]
fn slow_rate_is_reported_to_the_audit_log_once_when_it_begins() {
    let mut limiter = limiter();
    assert_eq!(fail_slowly(&mut limiter, ALICE, 49), 49);
    assert_eq!(limiter.events.take(), [""; 0]);
    assert_eq!(fail_slowly(&mut limiter, ALICE, 1_000), 34);
    let once = format!("slow rate of {ALICE}, known network: false");
    assert_eq!(limiter.events.take(), [once]);
}
