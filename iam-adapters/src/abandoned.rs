//! Ends sessions of the IAM that no client will receive, because a login failed or was cancelled.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use opentelemetry::trace::FutureExt as _;
use reqwest::RequestBuilder;
use scopeguard::ScopeGuard;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::Instrument as _;

use crate::adapter::IamAdapter;
use crate::client::UpstreamClient;
use crate::error::IamError;
use crate::types::UpstreamSession;

/// For each request. No client waits for it, so it may take longer than a logout.
const DEADLINE: Duration = Duration::from_secs(10);

/// The number of calls of [`end_with`] in flight. No request waits for them, but a command that exits after a login
/// does.
static IN_FLIGHT: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// Ends a session in a task of its own, because no client waits for it. Without a runtime nothing can be
/// sent, and the session ends when it expires.
pub fn end_session(iam: Arc<dyn IamAdapter>, session: UpstreamSession) {
    end_with(iam.name(), async move { iam.end_session(&session).await });
}

fn end_with<F>(adapter: &'static str, end: F)
where
    F: Future<Output = Result<(), IamError>> + Send + 'static,
{
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    IN_FLIGHT.send_modify(|calls| *calls += 1);
    // Also if the call is dropped with its runtime.
    let in_flight = scopeguard::guard((), |()| IN_FLIGHT.send_modify(|calls| *calls -= 1));
    let call = async move {
        let _in_flight = in_flight;
        if let Err(error) = end.await {
            tracing::warn!(
                iam.adapter = adapter,
                error = %format_args!("{error:#}"),
                "could not end the IAM session of a failed or cancelled login"
            );
        }
    };
    runtime.spawn(call.in_current_span().with_current_context());
}

/// Ends the session of a login by these requests, each whether the others succeed or not, if the login
/// fails or is cancelled, that is unless [`ScopeGuard::into_inner`] is called.
pub(crate) fn guard(
    adapter: &'static str,
    http: &UpstreamClient,
    requests: impl FnOnce() -> Result<Vec<RequestBuilder>, IamError>,
) -> ScopeGuard<(), impl FnOnce(())> {
    scopeguard::guard((), move |()| {
        let (http, requests) = (http.clone(), requests());
        end_with(adapter, async move {
            let mut ended = Ok(());
            for request in requests? {
                let sent = http.send(request.timeout(DEADLINE)).await;
                ended = ended.and(sent.and_then(|response| match response.status {
                    status if status.is_success() => Ok(()),
                    status => Err(IamError::Failed(format!("status {}", status.as_u16()))),
                }));
            }
            ended
        });
    })
}

/// Waits until all these calls in this process have ended.
pub async fn calls_ended() {
    let mut calls = IN_FLIGHT.subscribe();
    // Fails only if the sender is dropped, which is static.
    let _ = calls.wait_for(|calls| *calls == 0).await;
}
