//! The figures for Prometheus. Every series exists from the start, and their number does not
//! depend on the number of users.

mod request;

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use iam_adapters::guarded::Operation;
use iam_adapters::{IamError, Moment};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::gateway::keys::{Keys, age_seconds};
use crate::gateway::knowledge::Source;
use crate::gateway::throttle::{Limit, Throttle};

pub use request::{Outcome, Route};

/// How a call to the IAM can end.
const IAM_OUTCOMES: [&str; 9] = [
    "ok",
    "refused",
    "unreachable",
    "timed_out",
    "failed",
    "throttled",
    "unreadable",
    "misconfigured",
    "saturated",
];

/// From 100 µs, below which no exchange stays, to the longest deadline.
const BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

type Labels<const N: usize> = [(&'static str, &'static str); N];

type Histograms = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// All figures of one gateway.
///
/// The series of the hot path are looked up once, at the start, and stand in arrays.
pub struct Metrics {
    registry: Registry,
    requests: [[Counter; Outcome::ALL.len()]; Route::ALL.len()],
    durations: [Histogram; Route::ALL.len()],
    knowledge: [Counter; Source::ALL.len()],
    iam_calls: Family<Labels<2>, Counter>,
    iam_durations: Histograms,
    key_ages: Family<Labels<1>, Gauge>,
    key_counts: Family<Labels<1>, Gauge>,
    throttled: [Counter; Limit::ALL.len()],
    untracked: Counter,
    lines_dropped: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("auth_gateway");
        let requests = Family::<Labels<2>, Counter>::default();
        let durations = histograms();
        let knowledge = Family::<Labels<1>, Counter>::default();
        let iam_calls = Family::<Labels<2>, Counter>::default();
        let iam_durations = histograms();
        let key_ages = Family::default();
        let key_counts = Family::default();
        let throttled = Family::<Labels<1>, Counter>::default();
        let untracked = Counter::default();
        let lines_dropped = Counter::default();

        let help = "Requests, by route and outcome";
        registry.register("requests", help, requests.clone());
        let help = "Time from a request's headers to its response";
        registry.register_with_unit("request_duration", help, Unit::Seconds, durations.clone());
        let help = "Exchanges, by where the knowledge came from that they rest on";
        registry.register("knowledge", help, knowledge.clone());
        let help = "Calls to the IAM, by operation and outcome";
        registry.register("iam_calls", help, iam_calls.clone());
        let help = "Time that calls to the IAM took, retries included";
        registry.register_with_unit(
            "iam_call_duration",
            help,
            Unit::Seconds,
            iam_durations.clone(),
        );
        let help = "Time since the first use of the key in use";
        registry.register_with_unit("key_age", help, Unit::Seconds, Family::clone(&key_ages));
        let help = "Keys loaded, by purpose";
        registry.register("keys", help, Family::clone(&key_counts));
        let help = "Logins answered with 429 by this replica's own limits, by limit";
        registry.register("logins_throttled", help, throttled.clone());
        let help = "Login attempts that no limit but the replica's counts, for want of room";
        registry.register("logins_untracked", help, untracked.clone());
        let help = "Log lines lost because nobody took them off";
        registry.register("log_lines_dropped", help, lines_dropped.clone());

        for operation in Operation::ALL.map(Operation::name) {
            let _ = iam_durations.get_or_create(&[("operation", operation)]);
            for outcome in IAM_OUTCOMES {
                let _ = iam_calls.get_or_create(&[("operation", operation), ("outcome", outcome)]);
            }
        }
        Self {
            requests: Route::ALL.map(|route| {
                Outcome::ALL.map(|outcome| {
                    let labels = [("route", route.name()), ("outcome", outcome.name())];
                    requests.get_or_create_owned(&labels)
                })
            }),
            durations: Route::ALL
                .map(|route| durations.get_or_create_owned(&[("route", route.name())])),
            knowledge: Source::ALL
                .map(|source| knowledge.get_or_create_owned(&[("source", source.name())])),
            throttled: Limit::ALL
                .map(|limit| throttled.get_or_create_owned(&[("limit", limit.name())])),
            untracked,
            registry,
            iam_calls,
            iam_durations,
            key_ages,
            key_counts,
            lines_dropped,
        }
    }
}

fn histograms() -> Histograms {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

impl Metrics {
    /// Counts a request that was answered.
    pub fn request(&self, route: Route, outcome: Outcome, took: Duration) {
        let outcomes = self.requests.get(route as usize);
        if let Some(counter) = outcomes.and_then(|counters| counters.get(outcome.index())) {
            counter.inc();
        }
        if let Some(histogram) = self.durations.get(route as usize) {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// Counts an exchange by what it rests on.
    pub fn knowledge(&self, source: Source) {
        if let Some(counter) = self.knowledge.get(source as usize) {
            counter.inc();
        }
    }

    /// Counts a login that a limit stopped.
    pub fn throttled(&self, limit: Limit) {
        if let Some(counter) = self.throttled.get(limit as usize) {
            counter.inc();
        }
    }

    /// Takes how much the limits have lost sight of.
    pub fn untracked(&self, throttle: &Throttle) {
        let untracked = throttle.untracked();
        self.untracked.inner().store(untracked, Ordering::Relaxed);
    }

    /// Counts a call to the IAM.
    pub fn iam_call(&self, operation: Operation, result: Result<(), &IamError>, took: Duration) {
        let outcome = result.err().map_or("ok", IamError::kind);
        let operation = ("operation", operation.name());
        let labels = [operation, ("outcome", outcome)];
        self.iam_calls.get_or_create(&labels).inc();
        self.iam_durations
            .get_or_create(&[operation])
            .observe(took.as_secs_f64());
    }

    /// The counter of lost log lines, for the writer that loses them.
    #[must_use]
    pub fn lines_dropped(&self) -> Counter {
        self.lines_dropped.clone()
    }

    /// Takes the keys as they are now.
    pub fn keys(&self, keys: &Keys, now: Moment) {
        let signing = (
            age_seconds(keys.signing.current(now), now),
            keys.signing.count(),
        );
        let sealing = (
            age_seconds(keys.sealing.current(now), now),
            keys.sealing.count(),
        );
        for (purpose, (age, count)) in [("signing", signing), ("sealing", sealing)] {
            let labels = [("purpose", purpose)];
            self.key_ages.get_or_create(&labels).set(age);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.key_counts.get_or_create(&labels).set(count);
        }
    }

    /// All figures, in the text format that Prometheus reads.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string has no way to fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
