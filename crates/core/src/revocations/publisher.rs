//! How revocations reach the other replicas.

use std::fmt;
use std::pin::Pin;

use super::revocation::Revocation;

/// Ready when the other replicas have the revocation, or when waiting longer would delay a client
/// too much. A caller that need not wait drops it: the revocation is sent all the same.
pub type Delivered = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Publishes revocations to the other replicas.
pub trait RevocationPublisher: fmt::Debug + Send + Sync {
    /// Publishes a revocation if `is_unpublished`: the others do not have its latest form, nor was that
    /// sent. If it cannot be sent now, it is sent later. Until then, the freshness of cached data bounds
    /// how long other replicas accept the session.
    fn publish(&self, revocation: &Revocation, is_unpublished: bool) -> Delivered;

    /// Whether the revocation is not sent yet.
    fn is_pending(&self, revocation: &Revocation) -> bool;

    /// How many revocations are not sent yet.
    fn pending(&self) -> usize;
}
