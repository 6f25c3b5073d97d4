//! Ten million accounts and addresses that nobody ever saw before or after.

use super::*;

const OFFENDER: &str = "offender@example.test";

/// Resident, in MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a figure").parse::<f64>().expect("a number") / 1024.0
}

/// Nothing is forgotten meanwhile, and nothing but the tables holds anybody up.
fn unforgiving() -> Limits {
    Limits {
        replica: None,
        ..defaults()
    }
}

fn flood(door: &mut Door, attempts: usize, password: &str) {
    for number in 0..attempts {
        let email = format!("user{number}@example.test");
        let _ = door.log_in(&email, password, elsewhere(number));
    }
}

#[test]
fn a_flood_frees_no_offender_and_whom_no_table_has_room_for_is_held_to_the_replicas_rate() {
    let mut door = Door::new(defaults());
    let abroad = elsewhere(15_000_000);
    for number in 0..100 {
        let _ = door.log_in(&format!("guess{number}@example.test"), "", abroad);
    }
    for _ in 0..10 {
        let _ = door.log_in(OFFENDER, "", HOME);
    }
    flood(&mut door, 500_000, "");
    assert!(door.login_limiter.untracked() > 50_000);
    assert_eq!(door.asked, 0);
    let offender = door.log_in(OFFENDER, RIGHT, elsewhere(16_000_000));
    assert_eq!(stopped(&offender), Some((Limit::Account, 30.0)));
    let still = door.log_in("anybody@example.test", RIGHT, abroad);
    assert_eq!(stopped(&still), Some((Limit::Address, 9.0)));
    let newcomers = 700_000..701_000;
    let through = newcomers.filter(|number| {
        let email = format!("newcomer{number}@example.test");
        door.refused(&email, elsewhere(*number))
    });
    assert_eq!(through.count(), 30);
}

#[test]
#[ignore = "takes minutes, and measures the memory of the whole process: run it alone"]
fn ten_million_of_them_take_no_more_than_64_mib() {
    let mut door = Door::new(unforgiving());
    flood(&mut door, 1_000, "wrong");
    let before = memory();
    for number in 0..10_000_000 {
        let email = format!("user{number}@example.test");
        let password = if number % 2 == 0 { "wrong" } else { RIGHT };
        let _ = door.log_in(&email, password, elsewhere(number));
    }
    let grown = memory() - before;
    println!("grown by {grown:.1} MiB");
    assert!(grown <= 64.0, "{grown}");
}
