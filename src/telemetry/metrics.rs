//! The figures for Prometheus. Every series exists from the start, and their number does not
//! depend on the number of users.

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
use crate::http::problem::Code;

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

/// How a request ended: well, or with one of the error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Ok,
    /// With this error.
    Error(Code),
}

impl From<Code> for Outcome {
    fn from(code: Code) -> Self {
        Self::Error(code)
    }
}

impl Outcome {
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Ok).chain(Code::ALL.map(Self::Error))
    }

    /// The outcome's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error(code) => code.name(),
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

/// Series that are looked up once, when the gateway starts, and not at each request.
struct Series<T>(Vec<(&'static str, &'static str, T)>);

impl<T> Series<T> {
    fn at(&self, first: &'static str, second: &'static str) -> Option<&T> {
        self.0
            .iter()
            .find(|(a, b, _)| *a == first && *b == second)
            .map(|(_, _, series)| series)
    }
}

/// All figures of one gateway.
pub struct Metrics {
    registry: Registry,
    requests: Series<Counter>,
    durations: Series<Histogram>,
    knowledge: Series<Counter>,
    iam_calls: Series<Counter>,
    iam_durations: Series<Histogram>,
    key_ages: Family<Labels<1>, Gauge>,
    key_counts: Family<Labels<1>, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("auth_gateway");
        let counters = Family::<Labels<2>, Counter>::default();
        registry.register("requests", "Requests, by route and outcome", counters.clone());
        let requests = Route::ALL
            .into_iter()
            .flat_map(|route| Outcome::all().map(move |outcome| (route.name(), outcome.name())))
            .map(|(route, outcome)| {
                let labels = [("route", route), ("outcome", outcome)];
                (route, outcome, counters.get_or_create(&labels).clone())
            })
            .collect();

        let histograms = histograms();
        registry.register_with_unit(
            "request_duration",
            "Time from a request's headers to its response",
            Unit::Seconds,
            histograms.clone(),
        );
        let durations = Route::ALL
            .map(|route| (route.name(), "", histograms.get_or_create(&[("route", route.name())]).clone()))
            .into();

        let counters = Family::<Labels<1>, Counter>::default();
        registry.register(
            "knowledge",
            "Exchanges, by where the knowledge came from that they rest on",
            counters.clone(),
        );
        let knowledge = Source::ALL
            .map(|source| (source.name(), "", counters.get_or_create(&[("source", source.name())]).clone()))
            .into();

        let counters = Family::<Labels<2>, Counter>::default();
        registry.register("iam_calls", "Calls to the IAM, by operation and outcome", counters.clone());
        let iam_calls = Operation::ALL
            .into_iter()
            .flat_map(|operation| IAM_OUTCOMES.map(|outcome| (operation.name(), outcome)))
            .map(|(operation, outcome)| {
                let labels = [("operation", operation), ("outcome", outcome)];
                (operation, outcome, counters.get_or_create(&labels).clone())
            })
            .collect();

        let histograms = self::histograms();
        registry.register_with_unit(
            "iam_call_duration",
            "Time that calls to the IAM took, retries included",
            Unit::Seconds,
            histograms.clone(),
        );
        let iam_durations = Operation::ALL
            .map(|operation| {
                let labels = [("operation", operation.name())];
                (operation.name(), "", histograms.get_or_create(&labels).clone())
            })
            .into();

        let (key_ages, key_counts) = (Family::default(), Family::default());
        registry.register_with_unit(
            "key_age",
            "Time since the first use of the key in use",
            Unit::Seconds,
            Family::clone(&key_ages),
        );
        registry.register("keys", "Keys loaded, by purpose", Family::clone(&key_counts));
        Self {
            registry,
            requests: Series(requests),
            durations: Series(durations),
            knowledge: Series(knowledge),
            iam_calls: Series(iam_calls),
            iam_durations: Series(iam_durations),
            key_ages,
            key_counts,
        }
    }
}

fn histograms() -> Family<Labels<1>, Histogram, fn() -> Histogram> {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

impl Metrics {
    /// Counts a request that was answered.
    pub fn request(&self, route: Route, outcome: Outcome, took: Duration) {
        if let Some(counter) = self.requests.at(route.name(), outcome.name()) {
            counter.inc();
        }
        if let Some(histogram) = self.durations.at(route.name(), "") {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// Counts an exchange by what it rests on.
    pub fn knowledge(&self, source: Source) {
        if let Some(counter) = self.knowledge.at(source.name(), "") {
            counter.inc();
        }
    }

    /// Counts a call to the IAM.
    pub fn iam_call(&self, operation: Operation, result: Result<(), &IamError>, took: Duration) {
        let outcome = result.err().map_or("ok", IamError::kind);
        if let Some(counter) = self.iam_calls.at(operation.name(), outcome) {
            counter.inc();
        }
        if let Some(histogram) = self.iam_durations.at(operation.name(), "") {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// Takes the keys as they are now.
    pub fn keys(&self, keys: &Keys, now: Moment) {
        let signing = (age_seconds(keys.signing.current(now), now), keys.signing.count());
        let sealing = (age_seconds(keys.sealing.current(now), now), keys.sealing.count());
        for (purpose, (age, count)) in [("signing", signing), ("sealing", sealing)] {
            let labels = [("purpose", purpose)];
            self.key_ages.get_or_create(&labels).set(age);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.key_counts.get_or_create(&labels).set(count);
        }
    }

    /// All figures, in the text format of OpenMetrics.
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
