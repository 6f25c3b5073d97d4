//! Keycloak, 26.4 and later: login by direct grant, liveness and permissions by introspection of
//! the refresh token, logout by refresh token; logout tokens verified with the realm's keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use crate::adapter::{Capabilities, IamAdapter};
use crate::client::{ClientError, UpstreamClient};
use crate::clock::Clock;
use crate::error::{IamError, Misconfiguration};
use crate::logout_token::VerificationKeys;
use crate::oauth2::{OAuth2Client, Rejected};
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

mod calls;
mod dialect;
mod roles;
mod settings;
mod unclaimed;
mod wire;

pub use settings::KeycloakSettings;

use calls::Seen;
use dialect::DIALECT;
use roles::RoleReader;
use unclaimed::Unclaimed;
use wire::UnverifiedRefreshToken;

const NAME: &str = "keycloak";

/// How long a login waits for the permissions, which it can do without.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// One realm of a Keycloak, spoken to as one confidential client.
#[derive(Debug)]
pub struct Keycloak {
    server: OAuth2Client,
    discovery: Url,
    token: Url,
    introspection: Url,
    logout: Url,
    keys: Url,
    issuer: String,
    client_id: String,
    roles: RoleReader,
    /// The discovery document has named the configured issuer.
    issuer_confirmed: AtomicBool,
    /// Introspection has called a session active since the last sign of trouble, so that its
    /// "inactive" can be believed.
    introspection_proven: AtomicBool,
    /// A password grant has got past the client and on to the user since the last sign of trouble,
    /// so that direct grants are known to be on.
    grants_proven: AtomicBool,
    /// Introspection has called a living session inactive, and not been right since. No probe can
    /// find that out by itself.
    introspection_lied: AtomicBool,
}

/// Why there is no [`Keycloak`].
#[derive(Debug, Error)]
pub enum SetupError {
    /// The settings cannot be used.
    #[error("{}", reasons.join("\n"))]
    Settings {
        /// Each thing that is wrong, without the value.
        reasons: Vec<String>,
    },
    /// There is no client to speak with.
    #[error("iam.keycloak: {0}")]
    Client(#[from] ClientError),
}

impl Keycloak {
    /// Prepares to speak to a realm; reads the files that the settings name, and connects to
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`SetupError`] where the settings cannot be used.
    pub fn new(
        settings: &KeycloakSettings,
        connect_deadline: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let reasons = settings.problems(false);
        if !reasons.is_empty() {
            return Err(SetupError::Settings { reasons });
        }
        let secret = settings.secret().map_err(|problem| SetupError::Settings {
            reasons: vec![problem],
        })?;
        let http = UpstreamClient::new(&settings.client(connect_deadline), clock)?;
        let protocol =
            |below: &[&str]| settings.realm_url(&[&["protocol", "openid-connect"], below].concat());
        Ok(Self {
            server: OAuth2Client::new(http, &settings.client_id, &secret, DIALECT),
            discovery: settings.realm_url(&[".well-known", "openid-configuration"]),
            token: protocol(&["token"]),
            introspection: protocol(&["token", "introspect"]),
            logout: protocol(&["logout"]),
            keys: protocol(&["certs"]),
            issuer: settings.expected_issuer(),
            client_id: settings.client_id.clone(),
            roles: RoleReader::new(&settings.realm, settings.permissions_client.clone()),
            issuer_confirmed: AtomicBool::new(false),
            introspection_proven: AtomicBool::new(false),
            grants_proven: AtomicBool::new(false),
            introspection_lied: AtomicBool::new(false),
        })
    }

    /// How many role names were left out since the start because they cannot stand in a scope;
    /// repeats count.
    #[must_use]
    pub fn dropped_permissions(&self) -> u64 {
        self.roles.dropped()
    }

    /// What "inactive" means. It is also what Keycloak says of a living session to another
    /// client, under another host name, or where it does not take our hint; believed blindly, it
    /// would log everybody out.
    async fn judge_inactive(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.check_client(session)?;
        if self.introspection_proven.load(Ordering::Relaxed) {
            return Ok(Introspection::Inactive);
        }
        // Only until introspection is proven, because a refresh writes at Keycloak, extends the
        // idle time and, in a realm that rotates refresh tokens, uses this one up.
        match self.refresh(session).await {
            Ok(()) => Err(introspection_lies()),
            Err(Rejected::InvalidGrant(_)) => Ok(Introspection::Inactive),
            Err(Rejected::Fault(fault)) => Err(fault),
        }
    }

    /// Refuses a session that names another client as its own: that one alone may ask about it or
    /// end it. What names no client at all is nobody's session, and no reason to complain.
    fn check_client(&self, session: &UpstreamSession) -> Result<(), IamError> {
        match UnverifiedRefreshToken::read(&session.secret) {
            Some(token) if token.azp != self.client_id => Err(IamError::misconfigured(
                Misconfiguration::ForeignClient,
                "look at client_id: was it changed while sessions live?",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Forgets what was proven where the IAM turns out not to fit the settings.
    fn noting<T>(&self, result: Result<T, IamError>) -> Result<T, IamError> {
        if let Err(IamError::Misconfigured { what, .. }) = &result {
            if *what == Misconfiguration::Introspection {
                self.introspection_lied.store(true, Ordering::Relaxed);
            }
            // That one is about the session in hand.
            if *what != Misconfiguration::ForeignClient {
                self.introspection_proven.store(false, Ordering::Relaxed);
                self.grants_proven.store(false, Ordering::Relaxed);
                self.issuer_confirmed.store(false, Ordering::Relaxed);
            }
        }
        result
    }

    async fn log_in(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        if !self.issuer_confirmed.load(Ordering::Relaxed) {
            self.confirm_issuer().await?;
        }
        let mut login = self.password_grant(credentials, client).await?;
        let unclaimed = Unclaimed::new(self, &login.session);
        let seen = timeout(LOOK_PATIENCE, self.look(&login.session)).await;
        let seen = seen.unwrap_or(Err(IamError::TimedOut(LOOK_PATIENCE)));
        let mut permissions = None;
        match self.noting(seen) {
            Ok(Seen::Active { permissions: seen }) => permissions = Some(seen),
            Ok(Seen::Inactive) => return Err(introspection_lies()),
            // The login itself stands; the first exchange asks again, and answers for it.
            Err(error) => tracing::warn!(
                iam.adapter = NAME,
                %error,
                "no permissions could be had with a login"
            ),
        }
        unclaimed.claim();
        login.permissions = permissions;
        Ok(login)
    }

    async fn prove_all(&self) -> Result<(), IamError> {
        self.confirm_issuer().await?;
        self.prove_credentials().await?;
        // Only until they are proven: Keycloak takes note of it as of a login that failed.
        if !self.grants_proven.load(Ordering::Relaxed) {
            self.prove_grants().await?;
        }
        if self.introspection_lied.load(Ordering::Relaxed) {
            return Err(introspection_lies());
        }
        Ok(())
    }

    async fn log_out(&self, session: &UpstreamSession) -> Result<(), IamError> {
        match self.end(session).await {
            Ok(()) => Ok(()),
            // Gone already, unless Keycloak says the same because it is not ours to end.
            Err(Rejected::InvalidGrant(_)) => self.check_client(session),
            Err(Rejected::Fault(fault)) => Err(fault),
        }
    }
}

#[async_trait]
impl IamAdapter for Keycloak {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.noting(self.log_in(credentials, client).await)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let seen = match self.look(session).await {
            Ok(Seen::Active { permissions }) => Ok(Introspection::Active {
                subject: session.subject.clone(),
                permissions,
            }),
            Ok(Seen::Inactive) => self.judge_inactive(session).await,
            Err(fault) => Err(fault),
        };
        self.noting(seen)
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.noting(self.log_out(session).await)
    }

    fn logout_audience(&self) -> Option<&str> {
        Some(&self.client_id)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.noting(self.fetch_keys().await)
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.noting(self.prove_all().await)
    }
}

fn introspection_lies() -> IamError {
    IamError::misconfigured(
        Misconfiguration::Introspection,
        "a living session is called inactive: look at client_id and at the host name of the IAM",
    )
}
