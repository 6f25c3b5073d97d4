//! The figures for Prometheus. Every series exists from the start, and their number does not
//! depend on the number of users.

mod outcome;
mod shed;

use std::fmt;
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

pub use outcome::Outcome;
pub use shed::Shed;

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `POST /api/v1/auth/login`.
    Login,
    /// `POST /api/v1/auth/token`.
    Token,
    /// `POST /api/v1/auth/logout`.
    Logout,
    /// The discovery documents and `openapi.yaml`.
    WellKnown,
    /// The management listener.
    Management,
    /// Anything else.
    Other,
}

impl Route {
    const ALL: [Self; 6] = [
        Self::Login,
        Self::Token,
        Self::Logout,
        Self::WellKnown,
        Self::Management,
        Self::Other,
    ];

    /// The route of a path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path {
            "/api/v1/auth/login" => Self::Login,
            "/api/v1/auth/token" => Self::Token,
            "/api/v1/auth/logout" => Self::Logout,
            "/openapi.yaml" => Self::WellKnown,
            "/health/live" | "/health/ready" | "/metrics" => Self::Management,
            path if path.starts_with("/.well-known/") => Self::WellKnown,
            _ => Self::Other,
        }
    }

    /// Whether it is one of the three operations.
    #[must_use]
    pub const fn is_operation(self) -> bool {
        matches!(self, Self::Login | Self::Token | Self::Logout)
    }

    /// The route's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Token => "token",
            Self::Logout => "logout",
            Self::WellKnown => "well_known",
            Self::Management => "management",
            Self::Other => "other",
        }
    }
}

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
    lines_dropped: Counter,
    shed: Shed,
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
        let help = "Log lines lost because nobody took them off";
        registry.register("log_lines_dropped", help, lines_dropped.clone());
        let shed = Shed::registered_in(&mut registry);

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
            registry,
            iam_calls,
            iam_durations,
            key_ages,
            key_counts,
            lines_dropped,
            shed,
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

    /// The counters of what was parted with.
    #[must_use]
    pub fn shed(&self) -> &Shed {
        &self.shed
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
