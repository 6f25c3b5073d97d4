//! Logout tokens on their way to the gateway (OpenID Connect Back-Channel Logout 1.0 section 2.5).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::Clock;
use iam_adapters::client::{ClientError, ClientSettings, UpstreamClient};
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;

use super::signing::RealmKeys;
use crate::LogoutReceiver;

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
            Ok(Err(error)) => error.kind().to_owned(),
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

/// How one realm tells the gateway.
#[derive(Debug)]
pub struct RealmVoice {
    /// The way to the gateway; none: nobody is told.
    pub backchannel: Option<Arc<Backchannel>>,
    /// What the tokens are signed with.
    pub keys: Arc<RealmKeys>,
    /// What the realm calls itself.
    pub issuer: String,
    /// The gateway's client id.
    pub audience: String,
    /// The realm's time.
    pub clock: Arc<dyn Clock>,
}

impl RealmVoice {
    /// Tells that a session is over; whether the gateway took note.
    pub(super) async fn tell(&self, subject: &str, session: &str) -> bool {
        let Some(backchannel) = &self.backchannel else {
            return false;
        };
        let parties = (self.issuer.as_str(), self.audience.as_str());
        let now = self.clock.now().unix_seconds();
        let token = self.keys.logout_token(parties, (subject, session), now);
        match token {
            Some(token) => backchannel.tell(&token).await,
            None => false,
        }
    }
}

/// What is read of a token that the directory made for whoever is inside its own process.
#[derive(Deserialize)]
struct Named {
    sub: String,
    sid: String,
}

#[async_trait]
impl LogoutReceiver for RealmVoice {
    /// Says the same as a Keycloak would, with the realm's key and in the realm's name.
    async fn receive(&self, token: &str) -> bool {
        let claims = token.split('.').nth(1);
        let claims = claims.and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
        let named = claims.and_then(|claims| serde_json::from_slice::<Named>(&claims).ok());
        match named {
            Some(Named { sub, sid }) => self.tell(&sub, &sid).await,
            None => false,
        }
    }
}
