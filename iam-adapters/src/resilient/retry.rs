//! Retries of idempotent calls for which the IAM could not be reached.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::{Operation, Permit};
use crate::error::IamError;

/// How many retries follow if the IAM cannot be reached. None for a login, because two wrong passwords
/// in a row may lock the account.
const fn retries(operation: Operation) -> u32 {
    match operation {
        Operation::Login => 0,
        Operation::Introspection
        | Operation::Logout
        | Operation::Keys
        | Operation::Probe
        | Operation::Permissions => 1,
    }
}

/// Makes the attempts of one call. The permit of the circuit breaker has the budget of retries.
pub(super) async fn with_retries<T, F>(
    operation: Operation,
    permit: Option<&Permit<'_>>,
    mut attempt: impl FnMut() -> F,
) -> Result<T, IamError>
where
    F: Future<Output = Result<T, IamError>>,
{
    let mut retries = retries(operation);
    loop {
        // A panic of the adapter is a fault of this call, which is counted and logged as any other.
        let caught = AssertUnwindSafe(attempt()).catch_unwind().await;
        let panicked = |_| Err(IamError::Unreadable("the adapter panicked".into()));
        match caught.unwrap_or_else(panicked) {
            Err(IamError::Unreachable(_) | IamError::Disconnected(_))
                if retries > 0 && permit.is_none_or(Permit::take_retry) =>
            {
                retries -= 1;
            }
            result => return result,
        }
    }
}
