//! Sessions that an IAM has begun and that no client will receive.

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::error::IamError;

/// Ends such a session in a task of its own, because no client waits for it: `end` is the call to
/// the IAM. Outside of a runtime nothing can be sent, and the session ends when it expires.
pub fn end_session<F>(adapter: &'static str, end: F)
where
    F: Future<Output = Result<(), IamError>> + Send + 'static,
{
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let task = async move {
        if let Err(error) = end.await {
            tracing::warn!(
                iam.adapter = adapter,
                %error,
                "could not end the IAM session of a failed or cancelled login"
            );
        }
    };
    runtime.spawn(task.in_current_span());
}
