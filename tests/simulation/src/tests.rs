//! Histories of many seeds, and their reproduction.

use std::env;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::oracle::Cases;
use crate::plan::Plan;
use crate::shrink;
use crate::simulation::{self, History};

/// Only this seed.
const SEED: &str = "SIM_SEED";

/// The number of seeds, in place of the default.
const SEEDS: &str = "SIM_SEEDS";

/// The first seed.
const FIRST: &str = "SIM_FIRST";

/// The time in which all of them must be done, in seconds.
const SECONDS: &str = "SIM_SECONDS";

#[expect(clippy::disallowed_methods, reason = "variables of this test alone")]
fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

#[test]
fn every_history_keeps_the_guarantees() {
    if let Some(seed) = number(SEED) {
        return show(seed);
    }
    let (first, seeds) = (number(FIRST).unwrap_or(1), number(SEEDS).unwrap_or(500));
    let limit = number(SECONDS).map(Duration::from_secs);
    let began = Instant::now();
    let (next, is_done) = (AtomicU64::new(first), AtomicBool::new(false));
    let (found, cases) = (Mutex::new(None), Mutex::new(Cases::default()));
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds || limit.is_some_and(|limit| began.elapsed() >= limit)
                    {
                        return;
                    }
                    let history = simulation::run(&Plan::of(seed), seed, false);
                    cases.lock().expect("the cases").add(&history.cases);
                    if history.violation.is_some() {
                        is_done.store(true, Ordering::Relaxed);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.get_or_insert(seed);
                    }
                }
            });
        }
    });
    let tried = (next.into_inner() - first).min(seeds);
    println!("{tried} seeds in {:?}", began.elapsed());
    if let Some(seed) = found.into_inner().expect("the seed") {
        println!("after {} seeds:", seed - first + 1);
        show(seed);
        panic!("seed {seed} violated a rule, and does not when it is repeated");
    }
    assert_eq!(tried, seeds, "the time is over");
    let cases = cases.into_inner().expect("the cases");
    println!("{cases:?}");
    for case in Cases::ALL {
        let count = cases.0.get(case).copied().unwrap_or_default();
        assert!(count >= seeds / 10, "only {count} times {case}");
    }
}

/// Panics with the shortest history if the seed violates a rule.
fn show(seed: u64) {
    let plan = Plan::of(seed);
    let violates = |plan: &Plan| simulation::run(plan, seed, false).violation.is_some();
    if !violates(&plan) {
        let History { lines, .. } = simulation::run(&plan, seed, true);
        println!(
            "seed {seed}: {:?}\n{}\nno rule is violated",
            plan.setting,
            lines.join("\n")
        );
        return;
    }
    let smallest = shrink::minimal(plan, violates);
    let history = simulation::run(&smallest, seed, true);
    panic!(
        "seed {seed}: {:?}\n{}\n{}\nRepeat it: {SEED}={seed} cargo test --locked --package simulation every_history",
        smallest.setting,
        history.lines.join("\n"),
        history.violation.expect("a violation still"),
    );
}

#[test]
fn one_seed_has_one_history() {
    for seed in 1..=20 {
        let run = || simulation::run(&Plan::of(seed), seed, true);
        let (one, other) = (
            run(),
            thread::scope(|scope| scope.spawn(run).join()).expect("no panic"),
        );
        assert_eq!(one.lines, other.lines, "seed {seed}");
        assert_eq!(one.hash, other.hash, "seed {seed}");
    }
}
