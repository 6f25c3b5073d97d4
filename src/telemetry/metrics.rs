//! The metrics for Prometheus. Every series exists from the start, and their number does not depend on
//! the number of users.

mod audit;
mod certificate;
mod events;
mod iam;
mod keys;
#[cfg(target_os = "linux")]
mod process;
mod replicas;
mod shed;
mod spans;

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use iam_adapters::Moment;
use iam_adapters::name::Name as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use strum::{IntoStaticStr, VariantArray};

use auth_gateway_core::Gateway;
use auth_gateway_core::Keys;
use auth_gateway_core::introspection_cache::CacheUsage;

pub use audit::AuditMetrics;
pub use events::EventMetrics;
pub use iam::IamFamilies;
pub use shed::ShedMetrics;
pub use spans::SpanMetrics;

use certificate::CertificateExpiry;
use keys::KeyMetrics;
use replicas::ReplicaMetrics;

/// In seconds: from 100 µs, which every exchange exceeds, to the longest deadline.
const BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Labels of which the last one is the name of the IAM.
type IamLabels<const N: usize> = [(&'static str, String); N];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of one gateway.
///
/// The series of the hot path are looked up once, at the start, and stored in arrays.
pub struct Metrics {
    registry: Registry,
    requests: Box<[Box<[Counter]>]>,
    durations: Box<[Histogram]>,
    /// Of the IAMs.
    pub iam: IamFamilies,
    caches: CacheMetrics,
    certificate: CertificateExpiry,
    keys: KeyMetrics,
    files_unreadable: Gauge,
    throttled: Family<IamLabels<2>, Counter>,
    untracked: Counter,
    lines_dropped: Counter,
    audit: AuditMetrics,
    replicas: ReplicaMetrics,
    logout_tokens: Family<IamLabels<2>, Counter>,
    shed: ShedMetrics,
    spans: SpanMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut root = Registry::default();
        #[cfg(target_os = "linux")]
        root.register_collector(Box::new(process::ProcessCollector));
        let registry = root.sub_registry_with_prefix("auth_gateway");
        let help = "Version and commit of the program; always 1";
        let build: Family<Labels<2>, Gauge> = register(registry, "build_info", help);
        build
            .get_or_create_owned(&[("version", crate::VERSION), ("commit", crate::COMMIT)])
            .set(1);
        let help = "Requests; the outcome is ok or the error of the response";
        let requests: Family<Labels<2>, Counter> = register(registry, "requests", help);
        let help = "Time from a request's headers to its response";
        let durations: Histograms<Labels<1>> =
            register_histograms(registry, "request_duration", help);
        let iam = IamFamilies::registered_in(registry);
        let caches = CacheMetrics::registered_in(registry);
        let certificate = CertificateExpiry::registered_in(registry);
        let keys = KeyMetrics::registered_in(registry);
        let help = "1 while a file that the settings name is not usable";
        let files_unreadable = register(registry, "files_unreadable", help);
        let help = "Logins refused with 429 by a limit";
        let throttled = register(registry, "logins_throttled", help);
        let help =
            "Login attempts that only the limit replica counted, because the tables were full";
        let untracked = register(registry, "logins_untracked", help);
        let help = "Log lines lost because standard output was read too slowly";
        let lines_dropped = register(registry, "log_lines_dropped", help);
        let audit = AuditMetrics::registered_in(registry);
        let help = "Logout tokens received";
        let logout_tokens = register(registry, "logout_tokens", help);

        let mut replicas = ReplicaMetrics::default();
        replicas.register(registry, iam.clock_offset("redis", ""));
        let shed = ShedMetrics::registered_in(registry);
        let spans = SpanMetrics::registered_in(registry);

        Self {
            requests: each(|route: Route| {
                each(|outcome: Outcome| {
                    let labels = [("route", route.name()), ("outcome", outcome.name())];
                    requests.get_or_create_owned(&labels)
                })
            }),
            durations: each(|route: Route| {
                durations.get_or_create_owned(&[("route", route.name())])
            }),
            throttled,
            untracked,
            registry: root,
            iam,
            caches,
            certificate,
            keys,
            files_unreadable,
            lines_dropped,
            audit,
            replicas,
            logout_tokens,
            shed,
            spans,
        }
    }
}

/// What is made for each variant, in their order.
fn each<V: Copy + VariantArray, M>(make: impl Fn(V) -> M) -> Box<[M]> {
    V::VARIANTS.iter().copied().map(make).collect()
}

/// A new metric.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// A new metric with a unit.
fn register_with_unit<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Unit,
) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}

/// New histograms of durations in seconds.
fn register_histograms<L>(registry: &mut Registry, name: &str, help: &str) -> Histograms<L>
where
    L: EncodeLabelSet + Clone + Hash + Eq + fmt::Debug + Send + Sync + 'static,
{
    let histograms = Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
    registry.register_with_unit(name, help, Unit::Seconds, histograms.clone());
    histograms
}

/// New counters that differ in one label, which has these values.
fn register_counters<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [Counter; N] {
    let family: Family<Labels<1>, Counter> = register(registry, name, help);
    values.map(|value| family.get_or_create_owned(&[(label, value)]))
}

impl Metrics {
    /// Counts a request.
    pub fn request(&self, route: Route, outcome: Outcome, took: Duration) {
        let outcomes = self.requests.get(route as usize);
        if let Some(counter) = outcomes.and_then(|counters| counters.get(outcome as usize)) {
            counter.inc();
        }
        if let Some(histogram) = self.durations.get(route as usize) {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// The counter of dropped log lines.
    #[must_use]
    pub fn lines_dropped(&self) -> Counter {
        self.lines_dropped.clone()
    }

    /// The metrics of the audit log.
    #[must_use]
    pub fn audit(&self) -> AuditMetrics {
        self.audit.clone()
    }

    /// Sets the size of the table of revocations, its maximum, and the number of those that are not sent yet.
    pub fn revocations(&self, gateway: &Gateway) {
        self.replicas.take(gateway);
    }

    /// The counters of load shedding.
    #[must_use]
    pub fn shed(&self) -> &ShedMetrics {
        &self.shed
    }

    /// The counters of spans.
    #[must_use]
    pub fn spans(&self) -> SpanMetrics {
        self.spans.clone()
    }

    /// Sets the metrics of the keys.
    pub fn keys(&self, keys: &Keys, now: Moment) {
        self.keys.take(keys, now);
    }

    /// Sets whether a file that the settings name is not usable as it is now.
    pub fn files_unreadable(&self, unreadable: bool) {
        self.files_unreadable.set(i64::from(unreadable));
    }

    /// Sets the entries and the size of the caches.
    pub fn caches(&self, usage: &[CacheUsage]) {
        self.caches.take(usage);
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

struct CacheMetrics {
    entries: Family<Labels<1>, Gauge>,
    bytes: Family<Labels<1>, Gauge>,
    max_bytes: Family<Labels<1>, Gauge>,
}

impl CacheMetrics {
    fn registered_in(registry: &mut Registry) -> Self {
        let help = "Entries in the caches, which all IAMs share";
        let entries = register(registry, "cache_entries", help);
        let help = "Estimated memory of the entries in the caches";
        let bytes = register_with_unit(registry, "cache", help, Unit::Bytes);
        let help = "The most memory of the entries, a half of cache.max_bytes for each cache";
        let max_bytes = register_with_unit(registry, "cache_max", help, Unit::Bytes);
        Self {
            entries,
            bytes,
            max_bytes,
        }
    }

    fn take(&self, usage: &[CacheUsage]) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        for cache in usage {
            let labels = [("cache", cache.name)];
            for (family, value) in [
                (&self.entries, cache.entries),
                (&self.bytes, cache.bytes),
                (&self.max_bytes, cache.max_bytes),
            ] {
                family.get_or_create_owned(&labels).set(number(value));
            }
        }
    }
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

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
