//! The metrics for Prometheus. Every series exists from the start, and their number does not depend on
//! the number of users.

mod certificate;
mod events;
#[cfg(target_os = "linux")]
mod process;
mod state;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use iam_adapters::name::Name as _;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry, Unit};
use strum::{IntoStaticStr, VariantArray};

use auth_gateway_core::results::LookUp;

pub use events::EventMetrics;

use certificate::CertificateExpiry;

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Labels with values that are not in the program, such as the name of an IAM.
type OwnedLabels<const N: usize> = [(&'static str, String); N];

fn owned<const N: usize>(labels: [(&'static str, &str); N]) -> OwnedLabels<N> {
    labels.map(|(name, value)| (name, value.to_owned()))
}

/// The names of the variants, in their order.
fn names<E: Copy + VariantArray + Into<&'static str>>() -> impl Iterator<Item = &'static str> {
    E::VARIANTS.iter().copied().map(Into::into)
}

/// Durations in seconds.
#[derive(Debug, Clone)]
pub(crate) struct DurationHistogram(Histogram);

impl DurationHistogram {
    fn observe(&self, took: Duration) {
        self.0.observe(took.as_secs_f64());
    }
}

impl Default for DurationHistogram {
    /// From 100 µs, which every exchange exceeds, to the longest deadline.
    fn default() -> Self {
        Self(Histogram::new([
            0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
            1.0, 2.5, 5.0, 10.0,
        ]))
    }
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for DurationHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

/// Defines the metric families. The name of a field is that of its family without the prefix, the unit and
/// `_total`, and its documentation is the help text.
macro_rules! families {
    ($(#[doc = $help:literal] $family:ident: $metric:ty $(as $unit:ident)?,)*) => {
        /// The metric families, except those that are read at each scrape.
        #[derive(Debug)]
        #[expect(clippy::doc_markdown, reason = "help texts are plain text")]
        pub(crate) struct Families {
            $(#[doc = $help] pub(crate) $family: $metric,)*
        }

        impl Families {
            fn registered_in(registry: &mut Registry) -> Self {
                Self {
                    $($family: {
                        let unit = None$(.or(Some(Unit::$unit)))?;
                        registered(registry, stringify!($family), $help, unit)
                    },)*
                }
            }
        }
    };
}

fn registered<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Option<Unit>,
) -> M {
    let (metric, help) = (M::default(), help.trim());
    match unit {
        None => registry.register(name, help, metric.clone()),
        Some(unit) => registry.register_with_unit(name, help, unit, metric.clone()),
    }
    metric
}

families! {
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
    /// By how much the clock of an IAM or of Redis is at least ahead of the clock of this replica
    clock_offset: Family<OwnedLabels<2>, Gauge<f64, AtomicU64>> as Seconds,
    /// Exchanges, by the source of their data
    exchanges: Family<OwnedLabels<2>, Counter>,
    /// 1 while a file that the settings name is not usable
    files_unreadable: Gauge,
    /// Duration of calls to the IAM, retries included
    iam_call_duration: Family<OwnedLabels<2>, DurationHistogram> as Seconds,
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
    /// Log lines lost because standard output was read too slowly
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
    request_duration: Family<Labels<1>, DurationHistogram> as Seconds,
    /// Requests; the outcome is ok or the error of the response
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

/// All metrics of one gateway.
pub struct Metrics {
    registry: Registry,
    pub(crate) families: Families,
    certificate: CertificateExpiry,
    /// The counters of each route, by outcome: each request counts, and a look-up by labels takes a lock.
    requests: Box<[Box<[Counter]>]>,
    durations: Box<[DurationHistogram]>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        #[cfg(target_os = "linux")]
        registry.register_collector(Box::new(process::ProcessCollector));
        let own = registry.sub_registry_with_prefix("auth_gateway");
        let certificate = CertificateExpiry::registered_in(own);
        let families = Families::registered_in(own);
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
        Self {
            registry,
            families,
            certificate,
            requests,
            durations,
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
        for outcome in events::LOGIN_EVENTS {
            make(&self.login_events, "outcome", outcome);
        }
        for reason in events::IGNORED {
            make(&self.revocations_ignored, "reason", reason.name());
        }
    }
}

impl Metrics {
    /// Counts a request.
    pub fn request(&self, route: Route, outcome: Outcome, took: Duration) {
        let outcomes = self.requests.get(route as usize);
        if let Some(counter) = outcomes.and_then(|counters| counters.get(outcome as usize)) {
            counter.inc();
        }
        if let Some(histogram) = self.durations.get(route as usize) {
            histogram.observe(took);
        }
    }

    /// Counts a request or a connection that was refused, or a connection that was closed.
    pub fn shed(&self, cause: ShedCause) {
        let labels = [("reason", cause.name())];
        self.families.shed.get_or_create(&labels).inc();
    }

    /// Counts ended spans.
    pub fn spans(&self, outcome: SpanOutcome, count: u64) {
        let labels = [("outcome", outcome.name())];
        self.families.spans.get_or_create(&labels).inc_by(count);
    }

    /// Sets when the certificate of the public listener expires, as Unix time; `None`: there is none.
    pub fn certificate_expires(&self, at: Option<i64>) {
        self.certificate.set(at);
    }

    /// All metrics, in the text format of `OpenMetrics`.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Why load was shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ShedCause {
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
pub enum SpanOutcome {
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

impl Route {
    /// The route of a path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path {
            "/api/v1/auth/login" => Self::Login,
            "/api/v1/auth/token" => Self::Token,
            "/api/v1/auth/logout" => Self::Logout,
            "/api/v1/auth/backchannel-logout" => Self::BackchannelLogout,
            "/openapi.yaml" => Self::WellKnown,
            "/health/live" | "/health/ready" | "/metrics" => Self::Management,
            path if path.starts_with("/.well-known/") => Self::WellKnown,
            path if path.starts_with("/admin/") => Self::Management,
            _ => Self::Other,
        }
    }

    /// Whether it is an operation of the gateway. A draining gateway refuses those.
    #[must_use]
    pub const fn is_operation(self) -> bool {
        matches!(
            self,
            Self::Login | Self::Token | Self::Logout | Self::BackchannelLogout
        )
    }
}

/// How a request ended: successfully, or with an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// Successfully.
    Ok,
    /// `invalid_request`.
    InvalidRequest,
    /// `invalid_grant`.
    InvalidGrant,
    /// `invalid_scope`.
    InvalidScope,
    /// `unsupported_grant_type`.
    UnsupportedGrantType,
    /// `temporarily_unavailable`.
    TemporarilyUnavailable,
    /// `server_error`.
    ServerError,
    /// `invalid_token`.
    InvalidToken,
    /// `access_denied`.
    AccessDenied,
}
