//! The tables that several replicas fill together, and how the replicas reach each other. They are made
//! before the gateway and before the replication, which both use them.

use std::sync::Arc;

use iam_adapters::Clock;

use super::event::Subscribers;
use super::identifiers::IdentifierKey;
use super::introspection_cache::shared::SharedCache;
use super::login_limiter::{Limits, LoginPublisher, LoginRateLimiter};
use super::revocations::{RevocationPublisher, Revocations};
use super::timeline::Timeline;

/// How a gateway reaches the other replicas. The default is a gateway without others.
#[derive(Debug, Clone, Default)]
pub struct Replicas {
    /// Publishes revocations.
    pub revocations: Option<Arc<dyn RevocationPublisher>>,
    /// Publishes login events.
    pub logins: Option<Arc<dyn LoginPublisher>>,
    /// Stores cached data.
    pub cache: Option<Arc<dyn SharedCache>>,
}

/// The tables of a gateway, which the other replicas fill too.
#[derive(Debug, Clone)]
pub struct SharedTables {
    /// The revocations.
    pub revocations: Arc<Revocations>,
    /// The time line of revocations.
    pub timeline: Arc<Timeline>,
    /// The counts of logins.
    pub login_limiter: Arc<LoginRateLimiter>,
    /// The other replicas.
    pub replicas: Replicas,
    /// The clock of all of them.
    pub clock: Arc<dyn Clock>,
}

impl SharedTables {
    /// Empty tables. If revocations are shared, those of the others are unknown, so no access tokens are
    /// issued until [`Revocations::initial_sync_done`] or [`Revocations::serve_without_catching_up`].
    #[must_use]
    pub fn new(
        limits: Limits,
        key: Arc<IdentifierKey>,
        clock: &Arc<dyn Clock>,
        subscribers: &Subscribers,
        replicas: Replicas,
    ) -> Self {
        let is_shared = replicas.revocations.is_some();
        let login_limiter = LoginRateLimiter::new(
            limits,
            Arc::clone(clock),
            key,
            replicas.logins.clone(),
            subscribers.clone(),
        );
        Self {
            revocations: Arc::new(Revocations::new(is_shared)),
            timeline: Arc::new(Timeline::new(Arc::clone(clock), is_shared)),
            login_limiter: Arc::new(login_limiter),
            replicas,
            clock: Arc::clone(clock),
        }
    }
}
