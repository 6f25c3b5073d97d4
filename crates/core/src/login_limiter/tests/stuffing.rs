//! Password stuffing with the default limits: 50,000 attempts in a minute.

use super::*;

const ATTEMPTS: usize = 50_000;
const SECONDS: usize = 60;

/// The results of a minute under attack.
struct Minute {
    /// Attempts of the attacker that reached the IAM.
    reached: usize,
    /// The successful ones of ten logins per second from known networks.
    known_networks: usize,
    /// The successful ones of ten logins per second from unknown networks, by second.
    unknown_networks: [usize; SECONDS],
    calls: usize,
}

fn under_attack(mut limiter: TestLimiter, from: impl Fn(usize) -> IpAddr) -> Minute {
    let regular = |number: usize| (format!("regular{number}@example.test"), 1_000_000 + number);
    for number in 0..200 {
        let (email, home) = regular(number);
        limiter
            .log_in(&email, RIGHT, unrelated_address(home))
            .unwrap();
        limiter.advance(1);
    }
    let before = limiter.calls;
    let mut minute = Minute {
        reached: 0,
        known_networks: 0,
        unknown_networks: [0; SECONDS],
        calls: 0,
    };
    let a_tenth = ATTEMPTS / SECONDS / 10;
    for attempt in 0..ATTEMPTS {
        let victim = format!("victim{attempt}@example.test");
        minute.reached += usize::from(limiter.refused(&victim, from(attempt)));
        if attempt % a_tenth == 0 {
            let (email, home) = regular(attempt / a_tenth % 200);
            let login = limiter.log_in(&email, RIGHT, unrelated_address(home));
            minute.known_networks += usize::from(login.is_ok());
            let newcomer = format!("newcomer{attempt}@example.test");
            let login = limiter.log_in(&newcomer, RIGHT, unrelated_address(2_000_000 + attempt));
            if let Some(second) = minute.unknown_networks.get_mut(attempt / a_tenth / 10) {
                *second += usize::from(login.is_ok());
            }
        }
        let step = Duration::from_secs(SECONDS as u64) / u32::try_from(ATTEMPTS).unwrap();
        limiter.clock.advance(step);
    }
    minute.calls = limiter.calls - before;
    minute
}

/// The number of logins from known networks in the minute.
const REGULAR: usize = ATTEMPTS.div_ceil(ATTEMPTS / SECONDS / 10);

#[test]
fn attack_from_one_address_is_limited_without_affecting_others() {
    let minute = under_attack(TestLimiter::new(login_limits()), |_| HOME);
    assert!(minute.reached <= 100 + SECONDS / 9, "{}", minute.reached);
    assert_eq!(minute.known_networks, REGULAR);
    // Until the address is at its limit, it competes with unknown networks for the replica limit.
    assert_eq!(minute.unknown_networks[10..], [10; SECONDS - 10]);
}

#[test]
fn attack_from_five_thousand_addresses_is_limited_to_the_rate_and_known_networks_log_in() {
    let minute = under_attack(TestLimiter::new(login_limits()), |attempt| {
        unrelated_address(attempt % 5_000)
    });
    assert!(minute.calls <= 30 * (SECONDS + 2), "{}", minute.calls);
    assert_eq!(minute.known_networks, REGULAR);
}

#[test]
fn limit_of_a_48_network_is_ten_times_that_of_an_address() {
    let minute = under_attack(TestLimiter::without_rate(login_limits()), address_in_one_48);
    let trickle = SECONDS * 10 / 9;
    assert!(
        (1_000..=1_000 + trickle).contains(&minute.reached),
        "{}",
        minute.reached
    );
    assert_eq!(minute.unknown_networks, [10; SECONDS]);
}

#[test]
fn one_busy_account_does_not_use_up_the_reserve_of_others() {
    let mut limiter = TestLimiter::new(login_limits());
    let (busy, other) = ("busy@example.test", "other@example.test");
    for email in [busy, other] {
        limiter.log_in(email, RIGHT, HOME).unwrap();
    }
    limiter.advance(10);
    let accepted = (0..1_000).filter(|_| limiter.log_in(busy, RIGHT, HOME).is_ok());
    assert_eq!(accepted.count(), 30 + 10);
    assert_eq!(limiter.log_in(other, RIGHT, HOME), Ok(()));
}

#[test]
fn replica_limit_refuses_logins_whatever_their_body() {
    let mut limiter = TestLimiter::new(login_limits());
    let log_in_thirty = |limiter: &mut TestLimiter| {
        for number in 0..30 {
            let email = format!("user{number}@example.test");
            let address = unrelated_address(number);
            limiter.log_in(&email, RIGHT, address).unwrap();
        }
    };
    log_in_thirty(&mut limiter);
    assert_eq!(limiter.admit(None, None), Ok(()), "the reserve");
    log_in_thirty(&mut limiter);
    let full = limiter.admit(Some(unrelated_address(1)), None);
    assert_eq!(limit_of(&full), Some(Limit::Replica));
}
