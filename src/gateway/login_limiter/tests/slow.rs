//! Failures in a row: after many, the pace falls, for those networks alone from which they came.

use super::*;

const ALICE: &str = "alice@example.test";

fn door() -> Door {
    Door::new(Limits {
        replica: None,
        ..defaults()
    })
}

/// Fails so often, once in 30 seconds each time from another network; how many reached the IAM.
fn fail_slowly(door: &mut Door, email: &str, attempts: usize) -> usize {
    let mut reached = 0;
    for number in 0..attempts {
        reached += usize::from(door.refused(email, elsewhere(number)));
        door.advance(30);
    }
    reached
}

#[test]
fn after_fifty_failures_in_a_row_four_an_hour_reach_the_iam() {
    for email in [ALICE, "nobody@example.test"] {
        let mut door = door();
        assert_eq!(fail_slowly(&mut door, email, 50), 50);
        // An hour, and each hour of a day.
        for _ in 0..24 {
            assert_eq!(fail_slowly(&mut door, email, 120), 4);
        }
        assert_eq!(door.asked, 50 + 24 * 4);
    }
}

#[test]
fn of_160_failures_53_reach_the_iam_and_the_right_password_does_not_help() {
    let mut door = door();
    let reached = fail_slowly(&mut door, ALICE, 160);
    assert_eq!(reached, 50 + 3);
    let right = door.log_in(ALICE, RIGHT, elsewhere(1_000));
    let (limit, wait) = stopped(&right).expect("a limit");
    assert_eq!(limit, Limit::AccountSlow);
    assert!(wait > 0.0 && wait <= 900.0, "{wait}");
    door.clock.advance(Duration::from_secs_f64(wait));
    // One of the four, whoever comes first.
    assert_eq!(door.log_in(ALICE, RIGHT, elsewhere(1_001)), Ok(()));
}

#[test]
fn a_known_network_keeps_its_own_row_and_neither_ends_the_other() {
    let mut door = door();
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert_eq!(fail_slowly(&mut door, ALICE, 60), 50);
    // The account's owner notices nothing, and ends nobody's slow pace.
    for _ in 0..10 {
        assert!(door.refused(ALICE, HOME));
        door.advance(30);
    }
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    let stranger = door.log_in(ALICE, RIGHT, elsewhere(1_000));
    let slow = stopped(&stranger).map(|(limit, _)| limit);
    assert_eq!(slow, Some(Limit::AccountSlow));
    // What failed at home before that success is over: fifty more may fail.
    let mut home = 0;
    for _ in 0..60 {
        home += usize::from(door.refused(ALICE, HOME));
        door.advance(30);
    }
    assert_eq!(home, 50);
}

#[test]
fn a_success_from_an_unknown_network_ends_the_row_of_the_unknown_ones() {
    let mut door = door();
    assert_eq!(fail_slowly(&mut door, ALICE, 49), 49);
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert_eq!(fail_slowly(&mut door, ALICE, 60), 50);
}

#[test]
fn attempts_at_once_get_no_further_and_one_alone_is_under_way_at_the_slow_pace() {
    let mut door = Door::new(Limits {
        account: Bound {
            most: 1_000,
            ..defaults().account
        },
        replica: None,
        ..defaults()
    });
    let credentials = Credentials::new(ALICE.to_owned(), "x".into()).unwrap();
    // All are given up again at the end, which counts as a failure.
    let begun = |door: &Door| {
        let mut under_way = Vec::new();
        for _ in 0..100 {
            let ask = pending::<Result<(), IamError>>();
            let mut attempt = Box::pin(door.login_limiter.limit(
                door.login_limiter.account(credentials.email()),
                &credentials,
                None,
                ask,
            ));
            if (&mut attempt).now_or_never().is_none() {
                under_way.push(attempt);
            }
        }
        under_way.len()
    };
    assert_eq!(begun(&door), 50);
    door.advance(900);
    assert_eq!(begun(&door), 1);
    door.advance(899);
    assert!(!door.refused(ALICE, None));
}

#[test]
fn a_fault_and_an_empty_password_are_no_part_of_a_row() {
    let mut door = door();
    assert_eq!(fail_slowly(&mut door, ALICE, 49), 49);
    for _ in 0..20 {
        let fault = door.meet(ALICE, RIGHT, None, |_| Err(IamError::Saturated));
        assert_eq!(fault, Err(GatewayError::Full));
        let empty = door.log_in(ALICE, "", None);
        assert!(matches!(empty, Err(GatewayError::Refused(_))), "{empty:?}");
        door.advance(30);
    }
    assert!(door.refused(ALICE, None));
    door.advance(30);
    assert!(!door.refused(ALICE, None));
}

#[test]
fn a_row_is_forgotten_after_as_many_intervals_as_it_has_failures() {
    let mut door = door();
    assert_eq!(fail_slowly(&mut door, ALICE, 50), 50);
    door.advance(50 * 900 - 30 - 1);
    assert!(door.refused(ALICE, None), "one of four");
    door.advance(1);
    assert!(!door.refused(ALICE, None), "the row goes on");
    door.advance(50 * 900);
    assert_eq!(fail_slowly(&mut door, ALICE, 60), 50);
}

#[test]
fn an_operator_can_forget_the_failures_of_an_account() {
    let mut door = door();
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    for _ in 0..60 {
        for address in [HOME, elsewhere(1)] {
            door.refused(ALICE, address);
        }
        door.advance(30);
    }
    let forget = |door: &Door, email: &str, address: Option<IpAddr>| {
        let account = door
            .login_limiter
            .forget_failures(email, address.map(Into::into));
        assert_eq!(account, door.login_limiter.account(email));
    };
    forget(&door, "bob@example.test", None);
    assert!(!door.refused(ALICE, elsewhere(2)));
    forget(&door, " ALICE@example.test", None);
    assert!(door.refused(ALICE, elsewhere(2)));
    assert!(!door.refused(ALICE, HOME));
    forget(&door, ALICE, Some(HOME));
    assert_eq!((0..20).filter(|_| door.refused(ALICE, HOME)).count(), 10);
    assert_eq!(door.log_in(ALICE, RIGHT, elsewhere(3)), Ok(()));
}

#[test]
fn neither_a_flood_before_nor_one_after_makes_room_for_more_guesses() {
    let mut door = Door::new(defaults());
    let mut strangers = 0..;
    // As many as the replica lets through, each on another account, for longer than a row of one
    // failure is kept.
    let mut flood = |door: &mut Door, seconds: u64| {
        for _ in 0..seconds {
            for number in strangers.by_ref().take(30) {
                let email = format!("user{number}@example.test");
                assert!(door.refused(&email, elsewhere(1_000_000 + number)));
            }
            door.advance(1);
        }
    };
    flood(&mut door, 1_000);
    assert_eq!(fail_slowly(&mut door, ALICE, 60), 50);
    flood(&mut door, 1_000);
    assert_eq!(fail_slowly(&mut door, ALICE, 29), 1);
    assert_eq!(door.login_limiter.untracked(), 0);
}

/// What is written to the audit log meanwhile, a line each.
fn audit_lines(during: impl FnOnce()) -> Vec<String> {
    use tracing_subscriber::layer::SubscriberExt as _;

    let file = tempfile::NamedTempFile::new().unwrap();
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(Arc::new(file.reopen().unwrap()));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), during);
    let written = std::fs::read_to_string(file.path()).unwrap();
    let lines = written.lines().map(str::to_owned);
    lines
        .filter(|line| line.contains("auth_gateway::audit"))
        .collect()
}

#[test]
fn slow_pace_is_written_to_the_audit_log_once_when_it_begins() {
    let mut door = door();
    let account = door.login_limiter.account(ALICE).to_string();
    let none = audit_lines(|| assert_eq!(fail_slowly(&mut door, ALICE, 49), 49));
    assert_eq!(none, [""; 0]);
    let once = audit_lines(|| assert_eq!(fail_slowly(&mut door, ALICE, 1_000), 34));
    let [line] = &once[..] else {
        panic!("{once:?}");
    };
    assert!(
        line.contains(&account) && line.contains("unknown"),
        "{line}"
    );
    assert!(!line.contains("alice"), "{line}");
}
