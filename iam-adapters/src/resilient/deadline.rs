//! The deadline of a call, counted from its start.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::error::IamError;

/// The part of the deadline in which a call must get a permit. The rest is for the response, so that
/// [`IamError::TimedOut`] is about the IAM and not about the wait for a permit.
const WAITING_SHARE: u32 = 2;

#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(pub(super) Duration);

impl Deadline {
    /// Until when a call that started then may wait for a permit.
    pub(super) fn of_waiting(self, started: Instant) -> Instant {
        started + self.0 / WAITING_SHARE
    }

    /// Ends a call that started then.
    ///
    /// # Errors
    ///
    /// Those of the call, and [`IamError::TimedOut`].
    pub(super) async fn bound<T>(
        self,
        started: Instant,
        call: impl Future<Output = Result<T, IamError>>,
    ) -> Result<T, IamError> {
        let ended = timeout_at(started + self.0, call).await;
        ended.unwrap_or(Err(IamError::TimedOut(self.0)))
    }
}
