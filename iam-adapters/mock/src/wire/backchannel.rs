//! Sends logout tokens to the gateway (OpenID Connect Back-Channel Logout 1.0 section 2.5).

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use iam_adapters::client::{ClientError, UpstreamClient};
use tokio::time::timeout;
use url::Url;

/// The deadline of the gateway's response. The response to the logout waits for it.
const DEADLINE: Duration = Duration::from_secs(5);

/// An HTTP client for the back-channel logout endpoint of the gateway.
#[derive(Debug)]
pub struct Backchannel {
    client: UpstreamClient,
    url: Url,
}

impl Backchannel {
    /// A client for this endpoint. Does not connect.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be created.
    pub fn new(url: Url, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        Ok(Self {
            client: UpstreamClient::new(DEADLINE, None, None, clock)?,
            url,
        })
    }

    /// Sends a token once. Returns whether the gateway accepted it.
    pub(super) async fn send(&self, token: &str) -> bool {
        let request = self.client.post(&self.url).form(&[("logout_token", token)]);
        let problem = match timeout(DEADLINE, self.client.send(request)).await {
            Ok(Ok(response)) if response.status.is_success() => return true,
            Ok(Ok(response)) => format!("status {}", response.status.as_u16()),
            Ok(Err(error)) => error.kind().to_owned(),
            Err(_) => format!("no response within {DEADLINE:?}"),
        };
        tracing::warn!(
            url.host = self.url.host_str(),
            url.path = self.url.path(),
            error = problem,
            "the gateway did not accept a logout token; it is not sent again"
        );
        false
    }
}
