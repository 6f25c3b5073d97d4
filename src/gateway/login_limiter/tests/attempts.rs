//! What counts, and as what.

use super::*;

const ALICE: &str = "alice@example.test";

#[test]
fn ten_refusals_of_an_account_and_then_one_in_thirty_seconds() {
    let mut door = Door::new(defaults());
    for _ in 0..10 {
        assert!(door.refused(ALICE, None));
    }
    let more = door.log_in(ALICE, RIGHT, None);
    assert_eq!(stopped(&more), Some((Limit::Account, 30.0)));
    door.advance(29);
    let more = door.log_in(ALICE, RIGHT, None);
    assert_eq!(stopped(&more), Some((Limit::Account, 1.0)));
    door.advance(1);
    assert!(door.refused(ALICE, None));
    assert!(!door.refused(ALICE, None));
    door.advance(300);
    assert_eq!((0..20).filter(|_| door.refused(ALICE, None)).count(), 10);
}

#[test]
fn a_hundred_refusals_from_an_address_and_then_one_in_nine_seconds() {
    let mut door = Door::new(Limits {
        replica: None,
        ..defaults()
    });
    for number in 0..100 {
        assert!(door.refused(&format!("user{number}@example.test"), HOME));
    }
    let more = door.log_in(ALICE, RIGHT, HOME);
    assert_eq!(stopped(&more), Some((Limit::Address, 9.0)));
    assert_eq!(door.log_in(ALICE, RIGHT, elsewhere(1)), Ok(()));
    door.advance(9);
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert!(door.refused(ALICE, HOME));
    assert!(!door.refused(ALICE, HOME));
}

#[test]
fn neither_a_busy_office_nor_a_busy_program_is_in_anybodys_way() {
    let mut door = Door::new(Limits {
        replica: None,
        ..defaults()
    });
    for number in 0..5_000 {
        let email = format!("user{}@example.test", number % 500);
        assert_eq!(door.log_in(&email, RIGHT, HOME), Ok(()));
        assert_eq!(door.log_in(ALICE, RIGHT, None), Ok(()));
    }
    assert_eq!(door.asked, 10_000);
}

#[test]
fn a_fault_counts_for_nothing() {
    let mut door = Door::new(defaults());
    for fault in [
        IamError::Unreachable(String::new()),
        IamError::TimedOut(Duration::ZERO),
        IamError::Failed(String::new()),
        IamError::Throttled { retry_after: None },
        IamError::Unreadable(String::new()),
        IamError::Saturated,
    ] {
        for _ in 0..20 {
            let met = door.meet(ALICE, RIGHT, Some(HOME), |_| Err(fault.clone()));
            assert_eq!(met, Err(fault.clone().into()));
            door.advance(1);
        }
    }
    assert_eq!((0..20).filter(|_| door.refused(ALICE, HOME)).count(), 10);
}

#[test]
fn an_empty_password_counts_as_a_refusal_and_as_no_call_to_the_iam() {
    let mut door = Door::new(defaults());
    for number in 0..100 {
        let email = format!("user{number}@example.test");
        let empty = door.log_in(&email, "", HOME);
        assert!(matches!(empty, Err(GatewayError::Refused(_))), "{empty:?}");
    }
    assert_eq!(door.asked, 0);
    let more = door.log_in(ALICE, "", HOME);
    assert_eq!(stopped(&more), Some((Limit::Address, 9.0)));
    for _ in 0..10 {
        let _ = door.log_in(ALICE, "", None);
    }
    assert!(!door.refused(ALICE, None));
    assert_eq!(door.asked, 0);
}

#[test]
fn attempts_at_once_hold_their_places_and_one_that_hangs_up_has_failed() {
    let mut door = Door::new(defaults());
    let credentials = Credentials::new(ALICE.to_owned(), "x".into()).unwrap();
    let login_limiter = &door.login_limiter;
    let begin = || {
        let ask = pending::<Result<(), IamError>>();
        Box::pin(login_limiter.limit(
            login_limiter.account(credentials.email()),
            &credentials,
            None,
            ask,
        ))
    };
    let mut under_way: Vec<_> = (0..10).map(|_| begin()).collect();
    for attempt in &mut under_way {
        assert_eq!(attempt.now_or_never(), None);
    }
    let more = begin().now_or_never().expect("no place, no wait");
    assert!(stopped(&more).is_some_and(|(limit, _)| limit == Limit::Account));
    drop(under_way);
    assert!(!door.refused(ALICE, None));
    door.advance(30);
    assert!(door.refused(ALICE, None));
    assert!(!door.refused(ALICE, None));
}

#[test]
fn an_attempt_that_one_limit_stops_counts_for_no_other() {
    let mut door = Door::new(defaults());
    for _ in 0..10 {
        assert!(door.refused(ALICE, None));
    }
    // The account is full: neither the address nor the replica hears of these.
    for _ in 0..1_000 {
        assert!(!door.refused(ALICE, HOME));
    }
    for number in 0..20 {
        assert!(door.refused(&format!("user{number}@example.test"), HOME));
    }
    let more = door.log_in("user20@example.test", "wrong", HOME);
    assert_eq!(stopped(&more).map(|(limit, _)| limit), Some(Limit::Replica));
    // Thirty reached the IAM, and what the replica stopped counts for no account.
    assert_eq!(door.asked, 30);
    for _ in 0..100 {
        assert!(!door.refused("user20@example.test", None));
    }
    door.advance(60);
    assert!(door.refused("user20@example.test", None));
}

#[test]
fn zero_is_no_bound() {
    let none = |bound| Bound { most: 0, ..bound };
    let mut door = Door::new(Limits {
        account: none(defaults().account),
        account_slow: SlowPace {
            after: 0,
            ..defaults().account_slow
        },
        account_sessions: none(defaults().account_sessions),
        address: none(defaults().address),
        replica: None,
    });
    assert!((0..2_000).all(|_| door.refused(ALICE, HOME)));
}

#[test]
fn what_stands_for_an_account_tells_nothing_of_it() {
    let (one, other) = (Door::new(defaults()), Door::new(defaults()));
    let shown = one.login_limiter.account(ALICE).to_string();
    assert_eq!(shown.len(), 16);
    assert_eq!(
        shown,
        one.login_limiter.account(" ALICE@example.test").to_string()
    );
    assert_ne!(
        shown,
        one.login_limiter.account("bob@example.test").to_string()
    );
    assert_ne!(
        shown,
        other.login_limiter.account(ALICE).to_string(),
        "another key"
    );
}

#[test]
fn a_machine_that_was_suspended_forgets_nothing_early() {
    let mut door = Door::new(defaults());
    while door.refused(ALICE, None) {}
    door.clock.set_wall(START + Duration::from_secs(86_400));
    assert!(!door.refused(ALICE, None));
    door.clock.set_wall(Duration::ZERO);
    assert!(!door.refused(ALICE, None));
}
