//! The metrics for Prometheus. Every series exists from the start, and their number does not depend on
//! the number of users.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::name::Name as _;
use iam_adapters::resilient::{CallEvent, Circuit, Operation};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use strum::{IntoStaticStr, VariantArray};

use auth_gateway_core::error::{GatewayError, Limit};
use auth_gateway_core::event::{EntryOutcome, Event, Ignored, LoginEnd, Replicated, Subscriber};
use auth_gateway_core::results::{DataSource, EndedByIam, LookUp, UpstreamLogoutOutcome};

/// Defines the metric families. The name of a field is that of its family without the prefix, the unit and
/// `_total`, and its documentation is the help text.
macro_rules! families {
    (@initial) => { Default::default() };
    (@initial $initial:expr) => { $initial };
    ($(#[$of_all:meta])* $all:ident {
        $(#[doc = $help:literal] $family:ident: $metric:ty $(as $unit:ident)? $(= $initial:expr)?,)*
    }) => {
        $(#[$of_all])*
        #[derive(Debug)]
        pub(crate) struct $all {
            $(#[doc = $help] pub(crate) $family: $metric,)*
        }

        impl $all {
            fn registered_in(registry: &mut Registry) -> Self {
                Self {
                    $($family: {
                        let unit = None$(.or(Some(Unit::$unit)))?;
                        let metric = families!(@initial $($initial)?);
                        registered(registry, stringify!($family), $help, unit, metric)
                    },)*
                }
            }
        }
    };
}

#[cfg(target_os = "linux")]
mod process;
mod state;

fn registered<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    metric: M,
) -> M {
    let help = help.trim();
    match unit {
        None => registry.register(name, help, metric.clone()),
        Some(unit) => registry.register_with_unit(name, help, unit, metric.clone()),
    }
    metric
}

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Labels with values that are not in the program, such as the name of an IAM.
type OwnedLabels<const N: usize> = [(&'static str, String); N];

fn owned<const N: usize>(labels: [(&'static str, &str); N]) -> OwnedLabels<N> {
    labels.map(|(name, value)| (name, value.to_owned()))
}

/// Durations in seconds.
type Durations<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

fn durations<Labels: Clone + Eq + Hash>() -> Durations<Labels> {
    // From 100 µs, which every exchange exceeds, to the longest deadline.
    Family::new_with_constructor(|| {
        Histogram::new([
            0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
            1.0, 2.5, 5.0, 10.0,
        ])
    })
}

/// A gauge that has no series while it is 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct OptionalGauge(Gauge);

impl EncodeMetric for OptionalGauge {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }

    fn is_empty(&self) -> bool {
        self.0.get() == 0
    }
}

/// The names of the variants, in their order.
fn names<E: Copy + VariantArray + Into<&'static str>>() -> impl Iterator<Item = &'static str> {
    E::VARIANTS.iter().copied().map(Into::into)
}

families! {
    /// The metric families, except those of the process.
    #[expect(clippy::doc_markdown, reason = "help texts are plain text")]
    Families {
        /// Lines written to the audit log
        audit_lines: Counter,
        /// Lines of the audit log lost because it could not be written
        audit_lines_lost: Counter,
        /// 1 while the audit log cannot be written
        audit_unwritable: Gauge,
        /// Version and commit of the program; always 1
        build_info: Family<Labels<2>, Gauge>,
        /// Estimated memory of the entries in the caches
        cache: Family<Labels<1>, Gauge> as Bytes,
        /// Entries in the caches, which all IAMs share
        cache_entries: Family<Labels<1>, Gauge>,
        /// The most memory of the entries, a half of cache.max_bytes for each cache
        cache_max: Family<Labels<1>, Gauge> as Bytes,
        /// When the first certificate of the public listener's chain expires, in Unix time
        certificate_expiry_timestamp: OptionalGauge as Seconds,
        /// By how much the clock of an IAM or of Redis is at least ahead of the clock of this replica
        clock_offset: Family<OwnedLabels<2>, Gauge<f64, AtomicU64>> as Seconds,
        /// Exchanges, by the source of their data
        exchanges: Family<OwnedLabels<2>, Counter>,
        /// 1 while a file that the settings name is not usable
        files_unreadable: Gauge,
        /// Duration of calls to the IAM, retries included
        iam_call_duration: Durations<OwnedLabels<2>> as Seconds = durations(),
        /// Calls to the IAM, by outcome; permissions: to the source of permissions
        iam_calls: Family<OwnedLabels<3>, Counter>,
        /// Circuit breaker of calls to the IAM: 0 closed, 1 half-open, 2 open
        iam_circuit: Family<OwnedLabels<2>, Gauge>,
        /// Time since the first use of the key in use, whose id is kid
        key_age: Family<OwnedLabels<2>, Gauge> as Seconds,
        /// Changes of key folders
        key_reloads: Family<Labels<2>, Counter>,
        /// Loaded keys
        keys: Family<Labels<1>, Gauge>,
        /// 1 while a replica uses a key that this one or another does not have
        keys_differ: Family<Labels<1>, Gauge>,
        /// 1 while a key folder is not usable
        keys_unreadable: Family<Labels<1>, Gauge>,
        /// Log lines lost because standard output was read too slowly or could not be written
        log_lines_dropped: Counter,
        /// Login events that replicas share
        login_events: Family<Labels<1>, Counter>,
        /// 1 while this replica shares its login limits with the others
        login_limits_synchronized: Gauge,
        /// Logins refused with 429 by a limit
        logins_throttled: Family<OwnedLabels<2>, Counter>,
        /// Login attempts that only the limit replica counted, because the tables were full
        logins_untracked: Counter,
        /// Logout tokens received
        logout_tokens: Family<OwnedLabels<2>, Counter>,
        /// Time from a request's headers to its response
        request_duration: Durations<Labels<1>> as Seconds = durations(),
        /// Requests; the outcome is ok, the error of the response, or aborted
        requests: Family<Labels<2>, Counter>,
        /// Revocations in the table of this replica
        revocations: Gauge,
        /// Attempts to store a revocation that Redis refused
        revocations_failed: Counter,
        /// Entries in Redis that were ignored: revocations and statements about keys, each time they are read
        revocations_ignored: Family<Labels<1>, Counter>,
        /// Number of revocations from which on no session can begin
        revocations_max: Gauge,
        /// Revocations not yet sent to the other replicas
        revocations_pending: Gauge,
        /// Revocations received from the other replicas
        revocations_received: Counter,
        /// Revocations that Redis has stored for the other replicas
        revocations_sent: Counter,
        /// 1 while this replica receives all revocations of the others
        revocations_synchronized: Gauge,
        /// Look-ups of cached data that replicas share
        shared_cache_lookups: Family<Labels<1>, Counter>,
        /// Refused requests, refused connections and closed idle connections under load
        shed: Family<Labels<1>, Counter>,
        /// Ended spans of sampled requests
        spans: Family<Labels<1>, Counter>,
        /// Logouts that failed at the IAM and are not finished yet
        unfinished_logouts: Family<OwnedLabels<1>, Gauge>,
        /// Logouts that failed at the IAM and are no longer repeated
        unfinished_logouts_ended: Family<OwnedLabels<2>, Counter>,
    }
}

/// All metrics of one gateway. Counts its events: those that are attributed to no IAM have an empty name of the IAM.
#[derive(derive_more::Debug)]
#[debug("Metrics")]
pub struct Metrics {
    registry: Registry,
    pub(crate) families: Families,
    /// `None`: the sandbox has no `/proc`.
    #[cfg(target_os = "linux")]
    process: Option<process::ProcessFamilies>,
    /// The counters of each route, by outcome: each request counts, and a look-up by labels takes a lock.
    requests: Box<[Box<[Counter]>]>,
    durations: Box<[Histogram]>,
    /// Each IAM by its name, with the counters of its exchanges by their source: a look-up by labels takes a
    /// lock and allocates.
    iams: Box<[(Box<str>, ExchangeCounters)]>,
    /// Whether each of the two logs of login events is synchronized.
    logins_synchronized: [AtomicBool; 2],
}

/// The counters of exchanges, by the source of their data.
type ExchangeCounters = Box<[Counter]>;

impl Metrics {
    /// The metrics of a gateway with these IAMs.
    #[must_use]
    pub fn new(iams: &[&str]) -> Self {
        let mut registry = Registry::default();
        #[cfg(target_os = "linux")]
        let process = process::ProcessFamilies::of_this_process(&mut registry);
        let families = Families::registered_in(registry.sub_registry_with_prefix("auth_gateway"));
        let build = [("version", crate::VERSION), ("commit", crate::COMMIT)];
        families.build_info.get_or_create(&build).set(1);
        families.make_series();
        let requests = each(|route: Route| {
            each(|outcome: Outcome| {
                let labels = [("route", route.name()), ("outcome", outcome.name())];
                families.requests.get_or_create_owned(&labels)
            })
        });
        let durations = each(|route: Route| {
            let labels = [("route", route.name())];
            families.request_duration.get_or_create_owned(&labels)
        });
        let exchanges = |iam: &&str| {
            let counters = each(|source: DataSource| {
                let labels = owned([("source", source.name()), ("iam", iam)]);
                families.exchanges.get_or_create_owned(&labels)
            });
            (Box::from(*iam), counters)
        };
        let this = Self {
            iams: iams.iter().map(exchanges).collect(),
            registry,
            families,
            #[cfg(target_os = "linux")]
            process,
            requests,
            durations,
            logins_synchronized: Default::default(),
        };
        this.make_series(iams);
        this
    }

    /// Makes the series of these IAMs.
    fn make_series(&self, iams: &[&str]) {
        let families = &self.families;
        for iam in iams {
            families.make_series_of(iam);
        }
        let redis = owned([("peer", "redis"), ("iam", "")]);
        let _ = families.clock_offset.get_or_create(&redis);
        let none = (iams.len() > 1).then_some(None);
        for iam in iams.iter().copied().map(Some).chain(none) {
            for limit in names::<Limit>() {
                let labels = self.labels(("limit", limit), iam);
                let _ = families.logins_throttled.get_or_create(&labels);
            }
            for outcome in names::<InvalidLogoutToken>().chain(names::<LogoutTokenOutcome>()) {
                let labels = self.labels(("outcome", outcome), iam);
                let _ = families.logout_tokens.get_or_create(&labels);
            }
        }
    }
}

/// What is made for each variant, in their order.
fn each<V: Copy + VariantArray, M>(make: impl Fn(V) -> M) -> Box<[M]> {
    V::VARIANTS.iter().copied().map(make).collect()
}

impl Families {
    /// Makes the series whose labels have known values.
    fn make_series(&self) {
        let make = |family: &Family<Labels<1>, Counter>, label, value| {
            let _ = family.get_or_create(&[(label, value)]);
        };
        names::<LookUp>().for_each(|result| make(&self.shared_cache_lookups, "result", result));
        names::<ShedCause>().for_each(|reason| make(&self.shed, "reason", reason));
        names::<SpanOutcome>().for_each(|outcome| make(&self.spans, "outcome", outcome));
        for outcome in LOGIN_EVENTS {
            make(&self.login_events, "outcome", outcome);
        }
        for reason in IGNORED {
            make(&self.revocations_ignored, "reason", reason.name());
        }
    }

    /// Makes the series of an IAM.
    fn make_series_of(&self, iam: &str) {
        let iam = ("iam", iam);
        let offset = owned([("peer", "iam"), iam]);
        let _ = self.clock_offset.get_or_create(&offset);
        for outcome in names::<UpstreamLogoutOutcome>() {
            let labels = owned([("outcome", outcome), iam]);
            let _ = self.unfinished_logouts_ended.get_or_create(&labels);
        }
        for operation in Operation::ALL {
            let operation = ("operation", operation.name());
            for outcome in CALL_OUTCOMES {
                let labels = owned([operation, ("outcome", outcome), iam]);
                let _ = self.iam_calls.get_or_create(&labels);
            }
            let labels = owned([operation, iam]);
            let _ = self.iam_call_duration.get_or_create(&labels);
            let _ = self.iam_circuit.get_or_create(&labels);
        }
    }

    fn iam_event(&self, iam: &str, event: CallEvent<'_>) {
        let iam = ("iam", iam);
        match event {
            CallEvent::Called {
                operation,
                result,
                took,
            } => {
                let operation = ("operation", operation.name());
                let outcome = result.err().map_or("ok", IamError::kind);
                if CALL_OUTCOMES.contains(&outcome) {
                    let labels = owned([operation, ("outcome", outcome), iam]);
                    self.iam_calls.get_or_create(&labels).inc();
                }
                let labels = owned([operation, iam]);
                let histogram = self.iam_call_duration.get_or_create(&labels);
                histogram.observe(took.as_secs_f64());
            }
            CallEvent::Circuit { operation, circuit } => {
                let level = match circuit {
                    Circuit::Closed => 0,
                    Circuit::HalfOpen => 1,
                    Circuit::Open => 2,
                };
                let labels = owned([("operation", operation.name()), iam]);
                self.iam_circuit.get_or_create(&labels).set(level);
            }
            CallEvent::Clock { offset } => {
                let labels = owned([("peer", "iam"), iam]);
                self.clock_offset.get_or_create(&labels).set(offset);
            }
        }
    }
}

impl Metrics {
    /// Counts a request.
    pub(crate) fn request(&self, route: Route, outcome: Outcome, took: Duration) {
        let outcomes = self.requests.get(route as usize);
        if let Some(counter) = outcomes.and_then(|counters| counters.get(outcome as usize)) {
            counter.inc();
        }
        if let Some(histogram) = self.durations.get(route as usize) {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// Counts a request or a connection that was refused, or a connection that was closed.
    pub(crate) fn shed(&self, cause: ShedCause) {
        let labels = [("reason", cause.name())];
        self.families.shed.get_or_create(&labels).inc();
    }

    /// How many logins this IAM has accepted since the start.
    pub(crate) fn accepted_logins(&self, iam: &str) -> u64 {
        let operation = ("operation", Operation::Login.name());
        let labels = owned([operation, ("outcome", "ok"), ("iam", iam)]);
        self.families.iam_calls.get_or_create(&labels).get()
    }

    /// Counts ended spans.
    pub(crate) fn spans(&self, outcome: SpanOutcome, count: u64) {
        let labels = [("outcome", outcome.name())];
        self.families.spans.get_or_create(&labels).inc_by(count);
    }

    /// Sets when the certificate of the public listener expires, as Unix time; `None`: there is none.
    pub(crate) fn certificate_expires(&self, at: Option<i64>) {
        let gauge = &self.families.certificate_expiry_timestamp.0;
        gauge.set(at.unwrap_or_default());
    }

    /// All metrics, in the text format of `OpenMetrics`.
    pub(crate) fn encode(&self) -> String {
        #[cfg(target_os = "linux")]
        if let Some(process) = &self.process {
            // What cannot be read keeps its value.
            let _ = process.update();
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Why load was shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum ShedCause {
    /// The request had waited too long for its worker.
    Behind,
    /// The gateway stops.
    Draining,
    /// The connection limit was reached, and no connection was idle.
    Full,
    /// The connection was idle, and was closed to admit others.
    Idle,
}

/// What became of an ended span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum SpanOutcome {
    /// The Collector accepted it.
    Exported,
    /// It did not fit in the queue.
    Dropped,
    /// The Collector did not respond, or rejected it.
    Failed,
}

/// The route of a request, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Route {
    /// `POST /api/v1/auth/login`.
    Login,
    /// `POST /api/v1/auth/token`.
    Token,
    /// `POST /api/v1/auth/logout`.
    Logout,
    /// `POST /api/v1/auth/backchannel-logout`.
    BackchannelLogout,
    /// The discovery documents and `openapi.yaml`.
    WellKnown,
    /// The management listener.
    Management,
    /// Anything else.
    Other,
}

/// The paths of the API.
pub(crate) const API_PATHS: [(&str, Route); 8] = [
    ("/api/v1/auth/login", Route::Login),
    ("/api/v1/auth/token", Route::Token),
    ("/api/v1/auth/logout", Route::Logout),
    ("/api/v1/auth/backchannel-logout", Route::BackchannelLogout),
    ("/.well-known/jwks.json", Route::WellKnown),
    ("/.well-known/oauth-authorization-server", Route::WellKnown),
    ("/.well-known/openid-configuration", Route::WellKnown),
    ("/openapi.yaml", Route::WellKnown),
];

impl Route {
    /// The route of a path.
    pub(crate) fn of(path: &str) -> Self {
        match API_PATHS.iter().find(|(known, _)| *known == path) {
            Some((_, route)) => *route,
            None if path.starts_with("/.well-known/") => Self::WellKnown,
            None if path.starts_with("/admin/") => Self::Management,
            None => match path {
                "/health/live" | "/health/ready" | "/metrics" => Self::Management,
                _ => Self::Other,
            },
        }
    }

    /// Whether it is an operation of the gateway. A draining gateway refuses those.
    pub(crate) const fn is_operation(self) -> bool {
        matches!(
            self,
            Self::Login | Self::Token | Self::Logout | Self::BackchannelLogout
        )
    }
}

/// How a request ended: successfully, with this error code, or without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Outcome {
    Ok,
    InvalidRequest,
    InvalidGrant,
    InvalidScope,
    UnsupportedGrantType,
    TemporarilyUnavailable,
    ServerError,
    InvalidToken,
    AccessDenied,
    /// The connection broke while the request was handled.
    Aborted,
}

/// The outcomes of a call to the IAM.
const CALL_OUTCOMES: [&str; 10] = [
    "ok",
    "refused",
    "unreachable",
    "timed_out",
    "failed",
    "throttled",
    "unreadable",
    "misconfigured",
    "saturated",
    "circuit_open",
];

/// The outcomes of login events that replicas share.
const LOGIN_EVENTS: [&str; 4] = ["sent", "dropped", "received", "ignored"];

/// Why entries of the stream of revocations are ignored.
const IGNORED: [Ignored; 3] = [Ignored::Malformed, Ignored::UnknownKey, Ignored::Forged];

impl Metrics {
    /// An event without an IAM is attributed to the only one.
    fn labels(&self, label: (&'static str, &str), iam: Option<&str>) -> OwnedLabels<2> {
        let only = || match &*self.iams {
            [(only, _)] => Some(&**only),
            _ => None,
        };
        owned([label, ("iam", iam.or_else(only).unwrap_or_default())])
    }

    fn replication(&self, of: Replicated, is_received: bool, is_stored: bool) {
        let [logins, known_networks] = &self.logins_synchronized;
        let is_exchanged = is_received && is_stored;
        let families = &self.families;
        match of {
            Replicated::Revocations => {
                families
                    .revocations_synchronized
                    .set(i64::from(is_received));
            }
            Replicated::Logins => logins.store(is_exchanged, Ordering::Relaxed),
            Replicated::KnownNetworks => known_networks.store(is_exchanged, Ordering::Relaxed),
            Replicated::Keys => {}
        }
        let both = [logins, known_networks].map(|log| log.load(Ordering::Relaxed));
        let both = i64::from(both == [true, true]);
        families.login_limits_synchronized.set(both);
    }

    fn entries(&self, of: Replicated, outcome: EntryOutcome, count: usize) {
        let (families, count) = (&self.families, count as u64);
        match of {
            Replicated::Revocations | Replicated::Keys => match outcome {
                EntryOutcome::Sent => families.revocations_sent.inc_by(count),
                EntryOutcome::Refused => families.revocations_failed.inc_by(count),
                EntryOutcome::Received => families.revocations_received.inc_by(count),
                EntryOutcome::Ignored(why) => {
                    let labels = [("reason", why.name())];
                    let counter = families.revocations_ignored.get_or_create(&labels);
                    counter.inc_by(count)
                }
                EntryOutcome::Dropped => 0,
            },
            Replicated::Logins | Replicated::KnownNetworks => {
                let outcome = match outcome {
                    EntryOutcome::Sent => "sent",
                    EntryOutcome::Dropped => "dropped",
                    EntryOutcome::Received => "received",
                    EntryOutcome::Ignored(_) => "ignored",
                    EntryOutcome::Refused => return,
                };
                let counter = families.login_events.get_or_create(&[("outcome", outcome)]);
                counter.inc_by(count)
            }
        };
    }
}

impl Subscriber for Metrics {
    fn on_event(&self, event: &Event<'_>) {
        let families = &self.families;
        match *event {
            Event::Exchange {
                iam: Some(iam),
                result: Ok(source),
                ..
            } => {
                let of_iam = self.iams.iter().find(|(name, _)| **name == **iam);
                let counter = of_iam.and_then(|(_, counters)| counters.get(source as usize));
                if let Some(counter) = counter {
                    counter.inc();
                }
            }
            Event::Login {
                iam,
                end: LoginEnd::Decided(Err(GatewayError::TooManyLogins { limit, .. })),
                ..
            } => {
                let labels = self.labels(("limit", limit.name()), iam.map(|iam| &**iam));
                families.logins_throttled.get_or_create(&labels).inc();
            }
            Event::UntrackedLogin => {
                families.logins_untracked.inc();
            }
            Event::UpstreamLogout { iam, outcome, .. } => {
                let labels = owned([("outcome", outcome.name()), ("iam", iam)]);
                let counter = families.unfinished_logouts_ended.get_or_create(&labels);
                counter.inc();
            }
            Event::LogoutToken { iam, result, .. } => {
                if let Some(outcome) = outcome_of(result) {
                    let labels = self.labels(("outcome", outcome), iam.map(|iam| &**iam));
                    families.logout_tokens.get_or_create(&labels).inc();
                }
            }
            Event::Iam { iam, event } => families.iam_event(iam, event),
            Event::Clock { offset } => {
                let labels = owned([("peer", "redis"), ("iam", "")]);
                families.clock_offset.get_or_create(&labels).set(offset);
            }
            Event::Replication {
                of,
                received,
                stored,
                ..
            } => self.replication(of, received.is_ok(), stored.is_ok()),
            Event::Entries { of, outcome, count } => self.entries(of, outcome, count),
            Event::SharedLookUp { result } => {
                let labels = [("result", result.name())];
                families.shared_cache_lookups.get_or_create(&labels).inc();
            }
            _ => {}
        }
    }
}

/// The outcome of a logout token that was not invalid.
#[derive(Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
enum LogoutTokenOutcome {
    /// It ended one IAM session.
    SessionEnded,
    /// It ended all sessions of a subject.
    SubjectEnded,
    /// It was refused unread, because its sender had sent too many invalid ones.
    TurnedAway,
    /// It could not be verified.
    Fault,
}

/// The outcome of a logout token that the gateway received; `None` if the IAM sends none.
fn outcome_of(received: Result<&EndedByIam, &GatewayError>) -> Option<&'static str> {
    let outcome = match received.map(|by_iam| &by_iam.ended) {
        Ok(Ended::Session(_)) => LogoutTokenOutcome::SessionEnded,
        Ok(Ended::AllOf(_)) => LogoutTokenOutcome::SubjectEnded,
        Err(GatewayError::InvalidLogoutToken(why)) => return Some(why.name()),
        Err(GatewayError::TooManyLogoutTokens { .. }) => LogoutTokenOutcome::TurnedAway,
        Err(GatewayError::NoLogoutTokens) => return None,
        Err(_) => LogoutTokenOutcome::Fault,
    };
    Some(outcome.name())
}
