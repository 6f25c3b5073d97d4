//! The tables of the limits under ten million different accounts and addresses.

use super::*;

const OFFENDER: &str = "offender@example.test";

/// The resident memory in MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a value").parse::<f64>().expect("a number") / 1024.0
}

/// Counts a failure of other accounts and addresses, until the tables have no room left.
fn fill(limiter: &LoginRateLimiter) {
    let now = limiter.now();
    for (counts, quota) in [
        (&limiter.accounts, limiter.account),
        (&limiter.addresses, limiter.address),
    ] {
        let quota = quota.unwrap();
        for key in 0..230_000 {
            if counts.take(key, quota, now).unwrap() {
                counts.settle(key, quota, now, Settlement::Count);
            }
        }
        assert_eq!(counts.take(u64::MAX, quota, now), Ok(false));
    }
}

#[test]
fn flood_removes_no_tracked_account_and_untracked_ones_share_the_replica_limit() {
    let mut limiter = TestLimiter::new(login_limits());
    let address = unrelated_address(15_000_000);
    for number in 0..100 {
        let _ = limiter.log_in(&format!("guess{number}@example.test"), "", address);
    }
    for _ in 0..10 {
        let _ = limiter.log_in(OFFENDER, "", HOME);
    }
    fill(&limiter.login_limiter);
    let offender = limiter.log_in(OFFENDER, RIGHT, unrelated_address(16_000_000));
    assert_eq!(limited_by(&offender), Some((Limit::Account, 30.0)));
    let refused = limiter.log_in("other@example.test", RIGHT, address);
    assert_eq!(limited_by(&refused), Some((Limit::Address, 9.0)));
    let newcomers = 700_000..701_000;
    let accepted = newcomers.filter(|number| {
        let email = format!("newcomer{number}@example.test");
        limiter.refused(&email, unrelated_address(*number))
    });
    assert_eq!(accepted.count(), 30);
    // Neither the account nor the address of any of them is counted.
    assert!(limiter.events.untracked_logins() >= 2 * 30);
}

#[test]
#[ignore = "takes minutes, and measures the memory of the whole process: run it alone"]
fn ten_million_accounts_and_addresses_take_at_most_64_mib() {
    // Only the tables limit logins.
    let mut limiter = TestLimiter::without_rate(login_limits());
    let mut log_in = |number: usize| {
        let email = format!("user{number}@example.test");
        let password = if number.is_multiple_of(2) {
            "wrong"
        } else {
            RIGHT
        };
        let _ = limiter.log_in(&email, password, unrelated_address(number));
    };
    (0..1_000).for_each(&mut log_in);
    let before = memory();
    (0..10_000_000).for_each(log_in);
    let grown = memory() - before;
    println!("grown by {grown:.1} MiB");
    assert!(grown <= 64.0, "{grown}");
}
