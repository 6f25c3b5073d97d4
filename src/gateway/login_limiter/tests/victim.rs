//! Nobody locks the owner of an account out from elsewhere.

use super::*;

const ALICE: &str = "alice@example.test";
const WORK: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 1));

/// Fails from everywhere until nobody gets through any more.
fn lock(door: &mut Door, email: &str) {
    for number in 0..1_000 {
        door.refused(email, elsewhere(number));
    }
    assert!(!door.refused(email, elsewhere(1_000)));
}

fn open_door() -> Door {
    Door::new(Limits {
        replica: None,
        ..defaults()
    })
}

#[test]
fn who_logged_in_from_an_address_before_still_gets_in_from_there() {
    let mut door = open_door();
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert_eq!(door.log_in(ALICE, RIGHT, WORK), Ok(()));
    door.advance(29 * 24 * 3600);
    lock(&mut door, ALICE);
    assert_eq!(door.asked, 2 + 10);
    let stranger = door.log_in(ALICE, RIGHT, elsewhere(2_000));
    assert_eq!(stopped(&stranger), Some((Limit::Account, 30.0)));
    for spelling in [ALICE, "Alice@Example.Test "] {
        for address in [HOME, WORK] {
            assert_eq!(door.log_in(spelling, RIGHT, address), Ok(()));
        }
    }
    // The same /64 is the same household.
    let neighbour = "2001:db8:7:7:ffff::1".parse::<IpAddr>().unwrap();
    assert_eq!(door.log_in(ALICE, RIGHT, neighbour), Ok(()));
    let next_door = "2001:db8:7:8::1".parse::<IpAddr>().unwrap();
    assert!(stopped(&door.log_in(ALICE, RIGHT, next_door)).is_some());
}

#[test]
fn known_network_has_its_own_limit_for_the_account_that_knows_it() {
    let mut door = open_door();
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    lock(&mut door, ALICE);
    let through = (0..50).filter(|_| door.refused(ALICE, HOME)).count();
    assert_eq!(through, 10);
    // The strangers' count was left alone, and so was everybody else's.
    door.advance(30);
    assert!(door.refused(ALICE, elsewhere(1)));
    assert!(!door.refused(ALICE, elsewhere(2)));
    lock(&mut door, "bob@example.test");
    assert!(!door.refused("bob@example.test", HOME));
}

#[test]
fn after_a_month_an_address_is_strange_again() {
    let mut door = open_door();
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    door.advance(30 * 24 * 3600);
    lock(&mut door, ALICE);
    assert!(stopped(&door.log_in(ALICE, RIGHT, HOME)).is_some());
}

#[test]
fn refused_login_does_not_make_its_network_known() {
    let mut door = open_door();
    assert!(door.refused(ALICE, HOME));
    let fault = door.meet(ALICE, RIGHT, Some(HOME), |_| Err(IamError::Saturated));
    assert_eq!(fault, Err(GatewayError::Full));
    lock(&mut door, ALICE);
    assert!(stopped(&door.log_in(ALICE, RIGHT, HOME)).is_some());
}

#[test]
fn a_strangers_answers_do_not_tell_whether_an_account_exists() {
    let mut door = open_door();
    assert_eq!(door.log_in(ALICE, RIGHT, HOME), Ok(()));
    let mut answers = |email: &str| -> Vec<_> {
        (0..30)
            .map(|number| {
                door.advance(number % 3);
                door.log_in(email, "wrong", elsewhere(50_000))
            })
            .map(|answer| stopped(&answer))
            .collect()
    };
    let (known, unknown) = (answers(ALICE), answers("nobody@example.test"));
    assert_eq!(known, unknown);
    assert!(known.iter().any(Option::is_some));
}

#[test]
fn no_spelling_of_an_address_has_a_count_of_its_own() {
    let spellings = [
        "Alice@example.test",
        "alice@EXAMPLE.TEST",
        "alice@example.test ",
        " ALICE@example.test",
        "álice@example.test",
        "a\u{301}lice@example.test",
        "ａｌｉｃｅ＠example.test",
        "alice@example。test",
    ];
    let mut door = open_door();
    let mut through = 0;
    for number in 0..200 {
        let spelling = spellings[number % 6];
        through += usize::from(door.refused(spelling, elsewhere(number)));
    }
    assert_eq!((through, door.asked), (10, 10));
    // A full-width @ alone is none to the shape of an address; with another one it is.
    assert!(Credentials::new(spellings[6].to_owned(), "x".into()).is_err());
    let wide = "ａｌｉｃｅ@ｅｘａｍｐｌｅ．ｔｅｓｔ";
    assert!(!door.refused(wide, HOME));
}
