//! Logout tokens on their way to the gateway (OpenID Connect Back-Channel Logout 1.0 section 2.5).

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use iam_adapters::client::{ClientError, ClientSettings, UpstreamClient};
use tokio::time::timeout;
use url::Url;

use super::Realms;
use super::realm::Realm;

/// How long the gateway may take. Whoever logs out waits as long.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to the gateway.
#[derive(Debug)]
pub struct Backchannel {
    client: UpstreamClient,
    url: Url,
}

impl Backchannel {
    /// To this address; connects to nothing.
    ///
    /// # Errors
    ///
    /// Where there is no HTTP client.
    pub fn to(url: Url, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        let settings = ClientSettings {
            connect_deadline: PATIENCE,
            ca_file: None,
        };
        Ok(Self {
            client: UpstreamClient::new(&settings, clock)?,
            url,
        })
    }

    /// Sends a token, once; whether it was taken.
    async fn tell(&self, token: &str) -> bool {
        let request = self.client.post(&self.url).form(&[("logout_token", token)]);
        let problem = match timeout(PATIENCE, self.client.send(request)).await {
            Ok(Ok(answer)) if answer.status.is_success() => return true,
            Ok(Ok(answer)) => format!("status {}", answer.status.as_u16()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        tracing::warn!(
            url.host = self.url.host_str(),
            url.path = self.url.path(),
            error = problem,
            "a logout token was not taken, and is not sent again"
        );
        false
    }
}

/// A session that is over.
#[derive(Debug, Clone, Copy)]
pub struct Over<'a> {
    /// Whose it was.
    pub subject: &'a str,
    /// Its id (`sid`).
    pub session: &'a str,
}

impl Realms {
    /// Tells the gateway that a session is over, in the realm's own name; whether it took note.
    /// None tells anybody where no address is set.
    pub async fn tell(&self, realm: &Realm, over: Over<'_>) -> bool {
        let issuer = self.issuer(realm, &self.own_host());
        self.tell_as(realm, &issuer, over).await
    }

    pub(super) async fn tell_as(&self, realm: &Realm, issuer: &str, over: Over<'_>) -> bool {
        let Some(backchannel) = &self.backchannel else {
            return false;
        };
        let parties = (issuer, self.portrait.client_id.as_str());
        let subject = (over.subject, over.session);
        match self.keys.logout_token(parties, subject, realm.now()) {
            Some(token) => backchannel.tell(&token).await,
            None => false,
        }
    }
}
