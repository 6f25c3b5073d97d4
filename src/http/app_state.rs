//! The state that the handlers of both listeners share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use iam_adapters::Moment;
use ipnet::IpNet;
use secrecy::SecretString;

use crate::audit::AuditLog;
use crate::config::AllowedOrigin;
use crate::health::{Health, Lifecycle};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Traces;
use auth_gateway_core::Gateway;

/// The state that the handlers of both listeners share.
#[derive(Debug)]
pub struct AppState {
    /// The three operations.
    pub gateway: Arc<Gateway>,
    pub(crate) metrics: Arc<Metrics>,
    /// The state of this replica and of its IAMs.
    pub health: Arc<Health>,
    /// How long verifiers may cache the published keys.
    pub jwks_max_age: Duration,
    /// Whether faults of the IAM get 502, 503 or 504 in place of 500.
    pub(crate) precise_backend_status: bool,
    /// When the gateway was built.
    pub(crate) started: Moment,
    /// Whether this replica is stopping.
    pub(crate) lifecycle: Lifecycle,
    /// The networks of the proxies whose forwarding headers are used.
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// The origins whose pages may call the three endpoints.
    pub(crate) allowed_origins: Vec<AllowedOrigin>,
    /// Decides which requests are traced; `None`: none.
    pub(crate) traces: Option<Arc<Traces>>,
    /// The bearer token of operators; `None`: their calls are refused.
    pub(crate) operator_token: Option<Arc<ArcSwap<SecretString>>>,
    pub(crate) audit: Arc<AuditLog>,
}
