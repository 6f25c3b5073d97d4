//! Bounds the concurrent calls of one operation, and the calls that wait for a permit.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::error::IamError;

/// How many calls may wait for each permit. When all clients call at once, as after an outage, the
/// calls beyond it are refused immediately, and the clients retry spread over some seconds.
const WAITING_PER_PERMIT: usize = 8;

#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    permits: Semaphore,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl ConcurrencyLimit {
    pub(super) const fn new(permits: usize) -> Self {
        Self {
            permits: Semaphore::const_new(permits),
            waiting: AtomicUsize::new(0),
            waiting_max: permits.saturating_mul(WAITING_PER_PERMIT),
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
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        // Also if the call is cancelled.
        let _waiting = scopeguard::guard(&self.waiting, |waiting| {
            waiting.fetch_sub(1, Ordering::Relaxed);
        });
        if before >= self.waiting_max {
            return Err(IamError::Saturated);
        }
        match timeout_at(until, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(IamError::Saturated),
        }
    }
}
