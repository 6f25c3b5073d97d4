//! The slow rate after many failures in a row, separate for known and unknown networks.

use super::*;

const ALICE: &str = "alice@example.test";

fn limiter() -> TestLimiter {
    TestLimiter::without_rate(login_limits())
}

/// Fails every 30 seconds, each time from another network. Returns how many attempts reached the IAM.
fn fail_slowly(limiter: &mut TestLimiter, email: &str, attempts: usize) -> usize {
    fail_every(30, limiter, email, attempts)
}

fn fail_every(seconds: u64, limiter: &mut TestLimiter, email: &str, attempts: usize) -> usize {
    let mut reached = 0;
    for number in 0..attempts {
        reached += usize::from(limiter.refused(email, unrelated_address(number)));
        limiter.advance(seconds);
    }
    reached
}

#[test]
fn less_than_a_hundred_failures_in_a_row_reach_the_iam_in_a_week_and_then_six_a_day() {
    let mut limiter = limiter();
    assert_eq!(fail_slowly(&mut limiter, ALICE, 50), 50);
    // Four while the interval doubles from 15 minutes to two hours, and then one in four hours.
    let quarters = 7 * 96 - 1;
    assert_eq!(fail_every(900, &mut limiter, ALICE, quarters), 4 + 40);
    for _ in 0..7 {
        assert_eq!(fail_every(900, &mut limiter, ALICE, 96), 6);
    }
}

#[test]
fn no_pause_between_guesses_allows_more_than_a_hundred_in_a_week() {
    for guesses in [10, 49, 50] {
        for pause in [12, 17, 83, 84] {
            let mut limiter = limiter();
            let (mut reached, mut hours) = (0, 0);
            while hours < 4 * 7 * 24 {
                reached += fail_slowly(&mut limiter, ALICE, guesses);
                limiter.advance(pause * 3600);
                hours += pause;
            }
            assert!(reached <= 4 * 100 + 50, "{guesses} {pause}: {reached}");
        }
    }
}

#[test]
fn of_160_failures_52_reach_the_iam_and_the_right_password_is_limited_too() {
    let mut limiter = limiter();
    let reached = fail_slowly(&mut limiter, ALICE, 160);
    assert_eq!(reached, 50 + 2);
    let right = limiter.log_in(ALICE, RIGHT, unrelated_address(1_000));
    let (limit, wait) = limited_by(&right).expect("a limit");
    assert_eq!(limit, Limit::AccountSlow);
    assert!(wait > 0.0 && wait <= 3_600.0, "{wait}");
    limiter.clock.advance(Duration::from_secs_f64(wait));
    assert_eq!(
        limiter.log_in(ALICE, RIGHT, unrelated_address(1_001)),
        Ok(())
    );
    // The success ends the streak.
    assert_eq!(fail_slowly(&mut limiter, ALICE, 60), 50);
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
    assert_eq!(limit_of(&unknown), Some(Limit::AccountSlow));
    // The success has reset the failures of the known network: fifty more are allowed.
    let mut home = 0;
    for _ in 0..60 {
        home += usize::from(limiter.refused(ALICE, HOME));
        limiter.advance(30);
    }
    assert_eq!(home, 50);
}

#[test]
fn concurrent_attempts_are_limited_and_one_is_in_flight_at_the_slow_rate() {
    let mut limiter = TestLimiter::without_rate(Limits {
        account: Bound {
            most: 1_000,
            ..login_limits().account
        },
        ..login_limits()
    });
    let credentials = Credentials::new(ALICE.to_owned(), "x".into()).unwrap();
    // All are cancelled at the end, which counts as a failure.
    let started = |limiter: &TestLimiter| {
        let mut in_flight = Vec::new();
        for _ in 0..100 {
            let mut attempt = limiter.attempt(&credentials, None, pending());
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
fn row_is_kept_in_proportion_to_its_length() {
    let mut limiter = limiter();
    let each = 7 * 24 * 3600 / 100;
    assert_eq!(fail_slowly(&mut limiter, ALICE, 50), 50);
    limiter.advance(50 * each - 30 - 1);
    assert!(limiter.refused(ALICE, None), "the first of the slow rate");
    limiter.advance(1);
    assert!(!limiter.refused(ALICE, None), "still at the slow rate");
    limiter.advance(51 * each - 1);
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
        assert_eq!(account, limiter.login_limiter.key.account(email));
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
    let mut limiter = TestLimiter::new(login_limits());
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
    assert_eq!(limiter.events.untracked_logins(), 0);
}

#[test]
fn slow_rate_is_reported_to_the_audit_log_once_when_it_begins() {
    let mut limiter = limiter();
    assert_eq!(fail_slowly(&mut limiter, ALICE, 49), 49);
    assert_eq!(limiter.events.take(), [""; 0]);
    // In eight hours.
    assert_eq!(fail_slowly(&mut limiter, ALICE, 960), 6);
    let once = format!("slow rate of {ALICE}, known network: false");
    assert_eq!(limiter.events.take(), [once]);
}
