//! Sends logout tokens to the gateway (OpenID Connect Back-Channel Logout 1.0 section 2.5).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::client::{ClientError, ClientSettings, UpstreamClient};
use iam_adapters::{Clock, Subject};
use tokio::time::timeout;
use url::Url;

use super::signing::RealmKeys;
use crate::LogoutNotifier;

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
        let settings = ClientSettings {
            connect_deadline: DEADLINE,
            ca_file: None,
        };
        Ok(Self {
            client: UpstreamClient::new(&settings, clock)?,
            url,
        })
    }

    /// Sends a token once. Returns whether the gateway accepted it.
    async fn send(&self, token: &str) -> bool {
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

/// Sends the logout tokens of one realm.
#[derive(Debug)]
pub struct RealmLogoutNotifier {
    /// The client of the gateway; none: no tokens are sent.
    pub backchannel: Option<Arc<Backchannel>>,
    /// The keys that sign the tokens.
    pub keys: Arc<RealmKeys>,
    /// The issuer of the realm.
    pub issuer: String,
    /// The gateway's client id.
    pub audience: String,
    /// The clock of the realm.
    pub clock: Arc<dyn Clock>,
}

#[async_trait]
impl LogoutNotifier for RealmLogoutNotifier {
    async fn notify(&self, subject: &Subject, session_id: &str) -> bool {
        let Some(backchannel) = &self.backchannel else {
            return false;
        };
        let parties = (self.issuer.as_str(), self.audience.as_str());
        let now = self.clock.now().unix_seconds();
        let token = self
            .keys
            .logout_token(parties, (subject.as_str(), session_id), now);
        match token {
            Some(token) => backchannel.send(&token).await,
            None => false,
        }
    }
}
