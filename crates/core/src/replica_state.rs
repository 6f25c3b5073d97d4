//! What the parts of one replica use, and how it reaches the others. It is made before the gateway and
//! before the replication, which both use it.

use std::sync::Arc;

use iam_adapters::{Clock, Moment};

use super::event::Subscribers;
use super::gateway_keys::Keys;
use super::login_limiter::{Limits, LoginPublisher, LoginRateLimiter};
use super::revocations::{Delivered, Revocation, RevocationPublisher, Revocations};
use super::shared_cache::SharedCache;
use super::timeline::Timeline;
use crate::random::Random;

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

/// The state of one replica.
#[derive(Debug)]
pub struct ReplicaState {
    /// The clock of this replica.
    pub clock: Arc<dyn Clock>,
    /// The source of identifiers, nonces and random delays.
    pub random: Arc<dyn Random>,
    /// The keys that sign access tokens and seal session tokens, and that of identifiers.
    pub keys: Arc<Keys>,
    /// Receive what happens.
    pub subscribers: Subscribers,
    /// The revocations. The other replicas fill this table too.
    pub revocations: Revocations,
    /// The time line of revocations.
    pub timeline: Timeline,
    /// The counts of logins. The other replicas fill them too.
    pub login_limiter: LoginRateLimiter,
    /// The other replicas.
    pub replicas: Replicas,
}

impl ReplicaState {
    /// With empty tables. If revocations are shared, those of the others are unknown, so no access tokens
    /// are issued until [`Revocations::initial_sync_done`] or [`Revocations::serve_without_catching_up`].
    #[must_use]
    pub fn new(
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        keys: Arc<Keys>,
        subscribers: Subscribers,
        limits: Limits,
        replicas: Replicas,
    ) -> Self {
        let is_shared = replicas.revocations.is_some();
        let login_limiter = LoginRateLimiter::new(
            limits,
            Arc::clone(&clock),
            Arc::clone(&keys.identifiers),
            replicas.logins.clone(),
            subscribers.clone(),
        );
        Self {
            revocations: Revocations::new(is_shared),
            timeline: Timeline::new(Arc::clone(&clock), is_shared),
            login_limiter,
            clock,
            random,
            keys,
            subscribers,
            replicas,
        }
    }

    /// Records a revocation, and sends it to the other replicas unless they have it.
    pub(super) fn publish(&self, revocation: Revocation, now: Moment) -> Delivered {
        if let Some(replicas) = &self.replicas.revocations {
            let is_unpublished = self.revocations.record_published(&revocation, now);
            replicas.publish(&revocation, is_unpublished)
        } else {
            self.revocations.record(&revocation, now);
            Box::pin(std::future::ready(()))
        }
    }
}
