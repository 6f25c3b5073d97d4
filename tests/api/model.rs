//! Random histories of three replicas with one IAM, checked with a model: no token after a
//! revocation for longer than the freshness, no removed permission for longer than its TTL, no
//! fault in place of a refusal, no response of another session, and no token that the IAM did not
//! confirm.

use std::env;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use test_support::keys::TestKeys;

mod availability;
mod case_counts;
mod edges;
mod fixture;
mod minimal;
mod names;
mod oracle;
mod random;
mod recording_iam;
mod regressions;
mod replica;
mod replication;
mod replication_stream;
mod run;
mod scenario;
mod sessions;
mod state;

use case_counts::CaseCounts;
use oracle::Violation;
use replica::Extent;
use scenario::ModelScenario;

/// The number of scenarios, in place of the default.
const SCENARIOS: &str = "MODEL_SCENARIOS";

/// The number of the first scenario, which is its seed.
const FIRST: &str = "MODEL_FIRST";

const STEPS: usize = 1000;

#[test]
fn operations_keep_every_time_limit_in_random_histories() {
    let keys = TestKeys::new();
    for scenario in regressions::all() {
        for extent in [Extent::Operations, Extent::Service] {
            if let Err((_, violation)) = run::run(&scenario, extent, &keys) {
                panic!("{violation:?}\nin {}", shown(&scenario));
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
    let (counts, found) = (Mutex::new(CaseCounts::default()), Mutex::new(None));
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + scenarios || is_set(&found) {
                        return;
                    }
                    let scenario = ModelScenario::random(number, steps, extent.cached_at_least());
                    match run::run(&scenario, extent, keys) {
                        Ok(more) => counts.lock().expect("the counts").add(&more),
                        Err((last, _)) => {
                            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                            found.get_or_insert((number, scenario, last));
                        }
                    }
                }
            });
        }
    });
    if let Some((number, scenario, last)) = found.into_inner().expect("the violation") {
        fail(number, scenario, last, extent, keys);
    }
    let counts = counts.into_inner().expect("the counts");
    println!("{scenarios} scenarios of {steps} steps, {extent:?}: {counts:?}");
    counts.assert_minimum(usize::try_from(scenarios).expect("a small number"), extent);
}

fn is_set<T>(found: &Mutex<Option<T>>) -> bool {
    let found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.is_some()
}

/// Adds the minimal scenario to the regressions, and panics with it.
fn fail(
    number: u64,
    mut scenario: ModelScenario,
    last: usize,
    extent: Extent,
    keys: &TestKeys,
) -> ! {
    scenario.steps.truncate(last + 1);
    let violation_of = |scenario: &ModelScenario| run::run(scenario, extent, keys).err();
    let smallest = minimal::minimal(scenario, |smaller| violation_of(smaller).map(|(at, _)| at));
    let stored = match regressions::add(&smallest) {
        Ok(()) => "added to the regressions".to_owned(),
        Err(error) => format!("could not be added to the regressions: {error}"),
    };
    let (_, Violation(how)) = violation_of(&smallest).expect("violation still");
    panic!(
        "scenario {number} violates a rule: {how}\nat the end of {}\nwhich is {stored}",
        shown(&smallest)
    );
}

fn shown(scenario: &ModelScenario) -> String {
    let steps = scenario.steps.iter().map(|step| format!("  {step:?}"));
    let steps: Vec<_> = steps.collect();
    format!("{:?}\n{}", scenario.setting, steps.join("\n"))
}
