//! Random histories of three replicas before one IAM, held against the promises about time: no
//! token later than the bound after a revocation, no permission longer than its own after it was
//! taken, no fault told as a refusal, nobody's answer to another, and none that the IAM has not
//! given its word for.

use std::env;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use test_support::keys::TestKeys;

mod bus;
mod edges;
mod fixture;
mod hearing;
mod judge;
mod kept;
mod line;
mod minimal;
mod names;
mod random;
mod replica;
mod run;
mod scenario;
mod sessions;
mod tally;
mod trouble;
mod truth;

use judge::Breach;
use replica::Extent;
use scenario::Scenario;
use tally::Tally;

/// How many scenarios are tried, instead of the usual number.
const SCENARIOS: &str = "MODEL_SCENARIOS";

/// The number of the first one: a scenario is what follows from its number.
const FIRST: &str = "MODEL_FIRST";

const STEPS: usize = 1000;

#[test]
fn operations_keep_every_time_limit_in_random_histories() {
    let keys = TestKeys::new();
    for scenario in kept::all() {
        for extent in [Extent::Operations, Extent::Service] {
            if let Err((_, breach)) = run::run(&scenario, extent, &keys) {
                panic!("{breach:?}\nin {}", shown(&scenario));
            }
        }
    }
    let scenarios = number(SCENARIOS).unwrap_or(100);
    try_all(scenarios, STEPS, Extent::Operations, &keys);
}

#[test]
fn service_keeps_every_time_limit_in_random_histories() {
    let keys = TestKeys::new();
    let scenarios = number(SCENARIOS).unwrap_or(100).div_ceil(25);
    try_all(scenarios, STEPS / 2, Extent::Service, &keys);
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

fn try_all(scenarios: u64, steps: usize, extent: Extent, keys: &TestKeys) {
    let first = number(FIRST).unwrap_or(1);
    let next = AtomicU64::new(first);
    let (tally, found) = (Mutex::new(Tally::default()), Mutex::new(None));
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + scenarios || is_set(&found) {
                        return;
                    }
                    let scenario = Scenario::random(number, steps, extent.cached_at_least());
                    match run::run(&scenario, extent, keys) {
                        Ok(more) => tally.lock().expect("the tally").add(&more),
                        Err((last, _)) => {
                            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                            found.get_or_insert((number, scenario, last));
                        }
                    }
                }
            });
        }
    });
    if let Some((number, scenario, last)) = found.into_inner().expect("what was found") {
        tell(number, scenario, last, extent, keys);
    }
    let tally = tally.into_inner().expect("the tally");
    println!("{scenarios} scenarios of {steps} steps, {extent:?}: {tally:?}");
    tally.is_fair(usize::try_from(scenarios).expect("not so many"));
}

fn is_set<T>(found: &Mutex<Option<T>>) -> bool {
    let found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.is_some()
}

/// Keeps the smallest scenario that breaks the promise still, and panics with it.
fn tell(number: u64, mut scenario: Scenario, last: usize, extent: Extent, keys: &TestKeys) -> ! {
    scenario.steps.truncate(last + 1);
    let breach_of = |scenario: &Scenario| run::run(scenario, extent, keys).err();
    let smallest = minimal::minimal(scenario, |smaller| breach_of(smaller).map(|(at, _)| at));
    let kept = match kept::keep(&smallest) {
        Ok(()) => "kept among the regressions".to_owned(),
        Err(error) => format!("could not be kept: {error}"),
    };
    let (_, Breach(how)) = breach_of(&smallest).expect("broken still");
    panic!(
        "scenario {number} breaks a promise: {how}\nat the end of {}\nwhich is {kept}",
        shown(&smallest)
    );
}

fn shown(scenario: &Scenario) -> String {
    let steps = scenario.steps.iter().map(|step| format!("  {step:?}"));
    let steps: Vec<_> = steps.collect();
    format!("{:?}\n{}", scenario.setting, steps.join("\n"))
}
