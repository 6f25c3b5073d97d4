//! Passwords tried on many accounts, against the defaults: a minute each, 50,000 attempts.

use super::*;

const ATTEMPTS: usize = 50_000;
const SECONDS: usize = 60;

/// What became of a minute under attack.
struct Minute {
    /// Attempts of the attacker that reached the IAM.
    reached: usize,
    /// Of ten logins a second by people who were there before, those that succeeded.
    known_networks: usize,
    /// Of ten logins a second by people who were not, those that succeeded, by second.
    newcomers: [usize; SECONDS],
    asked: usize,
}

fn under_attack(limits: Limits, from: impl Fn(usize) -> IpAddr) -> Minute {
    let mut door = Door::new(limits);
    let regular = |number: usize| (format!("regular{number}@example.test"), 1_000_000 + number);
    for number in 0..200 {
        let (email, home) = regular(number);
        door.log_in(&email, RIGHT, elsewhere(home)).unwrap();
        door.advance(1);
    }
    let before = door.asked;
    let mut minute = Minute {
        reached: 0,
        known_networks: 0,
        newcomers: [0; SECONDS],
        asked: 0,
    };
    let a_tenth = ATTEMPTS / SECONDS / 10;
    for attempt in 0..ATTEMPTS {
        let victim = format!("victim{attempt}@example.test");
        minute.reached += usize::from(door.refused(&victim, from(attempt)));
        if attempt % a_tenth == 0 {
            let (email, home) = regular(attempt / a_tenth % 200);
            let came = door.log_in(&email, RIGHT, elsewhere(home));
            minute.known_networks += usize::from(came.is_ok());
            let newcomer = format!("newcomer{attempt}@example.test");
            let came = door.log_in(&newcomer, RIGHT, elsewhere(2_000_000 + attempt));
            if let Some(second) = minute.newcomers.get_mut(attempt / a_tenth / 10) {
                *second += usize::from(came.is_ok());
            }
        }
        let step = Duration::from_secs(SECONDS as u64) / u32::try_from(ATTEMPTS).unwrap();
        door.clock.advance(step);
    }
    minute.asked = door.asked - before;
    minute
}

/// How many logins by regular users a minute has.
const REGULAR: usize = ATTEMPTS.div_ceil(ATTEMPTS / SECONDS / 10);

#[test]
fn from_one_address_a_hundred_get_through_and_nobody_else_is_kept_waiting() {
    let minute = under_attack(defaults(), |_| HOME);
    assert!(minute.reached <= 100 + SECONDS / 9, "{}", minute.reached);
    assert_eq!(minute.known_networks, REGULAR);
    // Until the address has used up its hundred, it competes with newcomers for the replica.
    assert_eq!(minute.newcomers[10..], [10; SECONDS - 10]);
}

#[test]
fn from_five_thousand_addresses_the_iam_gets_its_rate_and_regular_users_get_in() {
    let minute = under_attack(defaults(), |attempt| elsewhere(attempt % 5_000));
    assert!(minute.asked <= 30 * (SECONDS + 2), "{}", minute.asked);
    assert_eq!(minute.known_networks, REGULAR);
}

#[test]
fn from_all_of_a_48_the_bound_is_ten_times_that_of_an_address() {
    let minute = under_attack(defaults(), next_door);
    let trickle = SECONDS * 10 / 9;
    assert!(minute.reached <= 1_000 + trickle, "{}", minute.reached);
    assert_eq!(minute.known_networks, REGULAR);
    let minute = under_attack(
        Limits {
            replica: None,
            ..defaults()
        },
        next_door,
    );
    assert!(
        (1_000..=1_000 + trickle).contains(&minute.reached),
        "{}",
        minute.reached
    );
    assert_eq!(minute.newcomers, [10; SECONDS]);
}

#[test]
fn one_account_that_logs_in_all_the_time_does_not_use_up_what_is_kept_for_the_others() {
    let mut door = Door::new(defaults());
    let (busy, other) = ("busy@example.test", "other@example.test");
    for email in [busy, other] {
        door.log_in(email, RIGHT, HOME).unwrap();
    }
    door.advance(10);
    let through = (0..1_000).filter(|_| door.log_in(busy, RIGHT, HOME).is_ok());
    assert_eq!(through.count(), 30 + 10);
    assert_eq!(door.log_in(other, RIGHT, HOME), Ok(()));
}

#[test]
fn a_replica_that_has_nothing_left_says_so_before_a_body_is_parsed() {
    let mut door = Door::new(defaults());
    for number in 0..30 {
        door.log_in(
            &format!("user{number}@example.test"),
            RIGHT,
            elsewhere(number),
        )
        .unwrap();
    }
    assert_eq!(
        door.login_limiter.admit(None),
        Ok(()),
        "the reserve is left"
    );
    for number in 0..30 {
        door.log_in(
            &format!("user{number}@example.test"),
            RIGHT,
            elsewhere(number),
        )
        .unwrap();
    }
    let full = door.login_limiter.admit(Some(elsewhere(1).into()));
    assert_eq!(stopped(&full).map(|(limit, _)| limit), Some(Limit::Replica));
}
