//! The other replicas, as the gateway sees them.

use std::fmt;
use std::pin::Pin;

use super::revocations::Revocation;

/// Over when the others were told, or when waiting any longer would be felt. Whoever need not wait
/// drops it: they are told all the same.
pub type Told = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whoever tells the other replicas what ended here.
pub trait Replicas: fmt::Debug + Send + Sync {
    /// Takes a revocation to tell. Cannot fail: what cannot be told now is told later, and until
    /// then the freshness of knowledge bounds how long a session goes on elsewhere.
    fn tell(&self, revocation: Revocation) -> Told;
}
