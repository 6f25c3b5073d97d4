//! Bounds the concurrent calls of one operation, and the calls that wait for a permit.

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::error::IamError;

/// How many calls may wait for each permit. When all clients call at once, as after an outage, the
/// calls beyond it are refused immediately, and the clients retry spread over some seconds.
const WAITING_PER_PERMIT: usize = 8;

#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    permits: Semaphore,
    /// Places for the calls that wait for a permit.
    places: Semaphore,
}

impl ConcurrencyLimit {
    pub(super) fn new(permits: usize) -> Self {
        let places = permits.saturating_mul(WAITING_PER_PERMIT);
        Self {
            permits: Semaphore::new(permits),
            places: Semaphore::new(places.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Waits for a permit until this time.
    ///
    /// # Errors
    ///
    /// [`IamError::Saturated`].
    pub(super) async fn acquire(&self, until: Instant) -> Result<SemaphorePermit<'_>, IamError> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let _place = (self.places.try_acquire()).map_err(|_| IamError::Saturated)?;
        match timeout_at(until, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(IamError::Saturated),
        }
    }
}
