//! New sessions of one account.

use super::*;

const ALICE: &str = "alice@example.test";

/// What is set before a Keycloak.
fn door() -> Door {
    Door::new(Limits {
        account_sessions: Bound {
            most: 20,
            window: Duration::from_secs(60),
        },
        replica: None,
        ..defaults()
    })
}

#[test]
fn an_account_begins_twenty_sessions_and_then_one_in_three_seconds_from_wherever() {
    let mut door = door();
    for number in 0..20 {
        assert_eq!(door.log_in(ALICE, RIGHT, elsewhere(number)), Ok(()));
    }
    for address in [elsewhere(0), HOME] {
        let more = door.log_in("ALICE@example.test", RIGHT, address);
        assert_eq!(stopped(&more), Some((Limit::AccountSessions, 3.0)));
    }
    assert_eq!(door.log_in("bob@example.test", RIGHT, HOME), Ok(()));
    assert_eq!(door.asked, 21);
    door.advance(3);
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert!(stopped(&door.log_in(ALICE, RIGHT, HOME)).is_some());
    door.advance(3_600);
    let through = (0..1_000).filter(|_| door.log_in(ALICE, RIGHT, HOME).is_ok());
    assert_eq!(through.count(), 20);
}

#[test]
fn logins_at_once_begin_no_more_sessions_and_none_that_the_iam_is_not_asked_for() {
    let door = Door::new(Limits {
        // Of these too no more may be under way.
        account: Bound {
            most: 1_000,
            ..defaults().account
        },
        account_sessions: Bound {
            most: 20,
            window: Duration::from_secs(60),
        },
        replica: None,
        ..defaults()
    });
    let credentials = Credentials::new(ALICE.to_owned(), RIGHT.into()).unwrap();
    let asked = std::cell::Cell::new(0);
    let mut logins: Vec<_> = (0..200)
        .map(|number| {
            let asked = &asked;
            let ask = async move {
                asked.set(asked.get() + 1);
                pending::<Result<(), IamError>>().await
            };
            let address = Some(elsewhere(number).into());
            Box::pin(door.login_limiter.limit(
                door.login_limiter.account(credentials.email()),
                &credentials,
                address,
                ask,
            ))
        })
        .collect();
    let stopped: Vec<_> = logins
        .iter_mut()
        .filter_map(futures_util::FutureExt::now_or_never)
        .collect();
    assert_eq!((asked.get(), stopped.len()), (20, 180));
    for stopped in &stopped {
        assert!(matches!(
            stopped,
            Err(GatewayError::TooManyLogins {
                limit: Limit::AccountSessions,
                ..
            })
        ));
    }
}

#[test]
fn what_was_refused_or_failed_begins_no_session_and_who_hangs_up_may_have_begun_one() {
    let mut door = door();
    for number in 0..5 {
        assert!(door.refused(ALICE, elsewhere(number)));
    }
    for _ in 0..50 {
        let fault = door.meet(ALICE, RIGHT, Some(HOME), |_| Err(IamError::Saturated));
        assert_eq!(fault, Err(GatewayError::Full));
    }
    let credentials = Credentials::new(ALICE.to_owned(), RIGHT.into()).unwrap();
    let ask = pending::<Result<(), IamError>>();
    let account = door.login_limiter.account(ALICE);
    let limited = door
        .login_limiter
        .limit(account, &credentials, Some(HOME.into()), ask);
    let mut login = Box::pin(limited);
    assert!((&mut login).now_or_never().is_none());
    drop(login);
    let through = (0..50).filter(|_| door.log_in(ALICE, RIGHT, HOME).is_ok());
    assert_eq!(through.count(), 19);
}

#[test]
fn zero_is_no_bound_and_none_is_the_default_of_an_iam_for_tests() {
    let mut door = Door::new(Limits {
        replica: None,
        ..defaults()
    });
    assert!((0..1_000).all(|_| door.log_in(ALICE, RIGHT, HOME).is_ok()));
}
