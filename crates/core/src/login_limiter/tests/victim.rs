//! Attackers elsewhere cannot lock the owner of an account out.

use super::*;

const ALICE: &str = "alice@example.test";
const WORK: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 1));

/// Fails from many networks until the account is limited.
fn exhaust_limit(limiter: &mut TestLimiter, email: &str) {
    for number in 0..1_000 {
        limiter.refused(email, unrelated_address(number));
    }
    assert!(!limiter.refused(email, unrelated_address(1_000)));
}

fn limiter() -> TestLimiter {
    TestLimiter::without_rate(login_limits())
}

#[test]
fn known_network_is_not_limited_by_failures_from_other_networks() {
    let mut limiter = limiter();
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    assert_eq!(limiter.log_in(ALICE, RIGHT, WORK), Ok(()));
    limiter.advance(29 * 24 * 3600);
    exhaust_limit(&mut limiter, ALICE);
    assert_eq!(limiter.calls, 2 + 10);
    let unknown = limiter.log_in(ALICE, RIGHT, unrelated_address(2_000));
    assert_eq!(limited_by(&unknown), Some((Limit::Account, 30.0)));
    for spelling in [ALICE, "Alice@Example.Test "] {
        for address in [HOME, WORK] {
            assert_eq!(limiter.log_in(spelling, RIGHT, address), Ok(()));
        }
    }
    // Another address of the same /64.
    let same_network = "2001:db8:7:7:ffff::1".parse::<IpAddr>().unwrap();
    assert_eq!(limiter.log_in(ALICE, RIGHT, same_network), Ok(()));
    let other_network = "2001:db8:7:8::1".parse::<IpAddr>().unwrap();
    assert!(limited_by(&limiter.log_in(ALICE, RIGHT, other_network)).is_some());
}

#[test]
fn known_network_has_its_own_limit_for_the_account_that_knows_it() {
    let mut limiter = limiter();
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    exhaust_limit(&mut limiter, ALICE);
    let accepted = (0..50).filter(|_| limiter.refused(ALICE, HOME)).count();
    assert_eq!(accepted, 10);
    // The counts of unknown networks and of other accounts are unchanged.
    limiter.advance(30);
    assert!(limiter.refused(ALICE, unrelated_address(1)));
    assert!(!limiter.refused(ALICE, unrelated_address(2)));
    exhaust_limit(&mut limiter, "bob@example.test");
    assert!(!limiter.refused("bob@example.test", HOME));
}

#[test]
fn client_that_guesses_at_a_known_account_affects_its_owner_at_that_address_only() {
    let mut limiter = limiter();
    for address in [HOME, WORK] {
        assert_eq!(limiter.log_in(ALICE, RIGHT, address), Ok(()));
    }
    for _ in 0..10 {
        assert!(limiter.refused(ALICE, HOME));
    }
    let owner = limiter.log_in(ALICE, RIGHT, HOME);
    assert_eq!(limited_by(&owner), Some((Limit::Account, 30.0)));
    assert_eq!(limiter.log_in(ALICE, RIGHT, WORK), Ok(()));
}

#[test]
fn client_that_exhausts_its_address_does_not_lock_out_the_accounts_that_are_known_there() {
    // Another address, and one in the same /48 as 1,000 others.
    for (home, attacker) in [
        (HOME, (|_| HOME) as fn(usize) -> IpAddr),
        (address_in_one_48(5_000), address_in_one_48),
    ] {
        let mut limiter = limiter();
        let owner = |number: usize| format!("owner{number}@example.test");
        for number in 0..10 {
            assert_eq!(limiter.log_in(&owner(number), RIGHT, home), Ok(()));
        }
        let guess = |limiter: &mut TestLimiter, number: usize| {
            limiter.refused(&format!("guess{number}@example.test"), attacker(number))
        };
        let guesses = (0..2_000).filter(|number| guess(&mut limiter, *number));
        assert!([100, 1_000].contains(&guesses.count()));
        let newcomer = limiter.log_in("newcomer@example.test", RIGHT, home);
        assert_eq!(limit_of(&newcomer), Some(Limit::Address));
        for number in 0..10 {
            assert_eq!(limiter.log_in(&owner(number), RIGHT, home), Ok(()));
        }
        // What limits guesses at a known account is its own limit.
        let guesses = (0..50).filter(|_| limiter.refused(&owner(0), home));
        assert_eq!(guesses.count(), 10);
        assert_eq!(limiter.log_in(&owner(1), RIGHT, home), Ok(()));
    }
}

#[test]
fn known_network_is_held_to_the_limit_of_its_address_if_accounts_have_none() {
    let mut limiter = TestLimiter::without_rate(limits_without_refusals_of_accounts());
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    let guesses = (0..500).filter(|_| limiter.refused(ALICE, HOME));
    assert_eq!(guesses.count(), 100);
}

#[test]
fn network_is_unknown_again_after_a_month() {
    let mut limiter = limiter();
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    limiter.advance(30 * 24 * 3600);
    exhaust_limit(&mut limiter, ALICE);
    assert!(limited_by(&limiter.log_in(ALICE, RIGHT, HOME)).is_some());
}

#[test]
fn refused_login_does_not_make_its_network_known() {
    let mut limiter = limiter();
    assert!(limiter.refused(ALICE, HOME));
    let fault = limiter.log_in_with(ALICE, RIGHT, Some(HOME), |_| Err(IamError::Saturated));
    assert_eq!(fault, Err(IamError::Saturated.into()));
    exhaust_limit(&mut limiter, ALICE);
    assert!(limited_by(&limiter.log_in(ALICE, RIGHT, HOME)).is_some());
}

#[test]
fn responses_do_not_reveal_whether_an_account_exists() {
    let mut limiter = limiter();
    assert_eq!(limiter.log_in(ALICE, RIGHT, HOME), Ok(()));
    let mut responses = |email: &str| -> Vec<_> {
        (0..30)
            .map(|number| {
                limiter.advance(number % 3);
                limiter.log_in(email, "wrong", unrelated_address(50_000))
            })
            .map(|result| limited_by(&result))
            .collect()
    };
    let (known, unknown) = (responses(ALICE), responses("unknown@example.test"));
    assert_eq!(known, unknown);
    assert!(known.iter().any(Option::is_some));
}
