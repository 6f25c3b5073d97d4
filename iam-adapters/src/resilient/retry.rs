//! Retries of idempotent calls for which the IAM could not be reached.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::{Operation, Permit};
use crate::error::IamError;

/// Makes the attempts of one call. The permit of the circuit breaker has the budget of retries.
pub(super) async fn with_retries<T, F>(
    operation: Operation,
    permit: Option<&Permit<'_>>,
    mut attempt: impl FnMut() -> F,
) -> Result<T, IamError>
where
    F: Future<Output = Result<T, IamError>>,
{
    // A login is not retried, because two wrong passwords in a row may lock the account.
    let mut may_retry = operation != Operation::Login;
    loop {
        // A panic of the adapter is a fault of this call, which is counted and logged as any other.
        let caught = AssertUnwindSafe(attempt()).catch_unwind().await;
        let panicked = |_| Err(IamError::Unreadable("the adapter panicked".into()));
        match caught.unwrap_or_else(panicked) {
            Err(IamError::Unreachable(_) | IamError::Disconnected(_))
                if may_retry && permit.is_none_or(Permit::take_retry) =>
            {
                may_retry = false;
            }
            result => return result,
        }
    }
}
