//! The other replicas, as the gateway sees them.

use std::fmt;
use std::pin::Pin;

use super::revocations::Revocation;

/// Over when the others were told, or when waiting any longer would be felt. A caller that need not
/// wait drops it: they are told all the same.
pub type Told = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Gives the other replicas what the table of revocations has queued for them.
pub trait Replicas: fmt::Debug + Send + Sync {
    /// Takes note that this revocation is queued. Cannot fail: what cannot be sent now stays queued,
    /// and until then the freshness of knowledge bounds how long a session goes on elsewhere.
    fn tell(&self, revocation: Revocation) -> Told;
}
