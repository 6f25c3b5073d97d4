//! Keycloak, 24 and later: login by direct grant, introspection of the refresh token for liveness and
//! permissions, logout by refresh token, and logout tokens verified with the realm's keys.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{RequestBuilder, StatusCode};
use scopeguard::ScopeGuard;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize as _;
use tokio::sync::Mutex;
use url::Url;

use crate::abandoned;
use crate::adapter::{Capabilities, IamAdapter};
use crate::claims::Claims;
use crate::client::within_call;
use crate::clock::{Clock, Moment};
use crate::error::{Detail, IamError, Misconfiguration};
use crate::json::UniqueMembers;
use crate::jwk::VerificationKeys;
use crate::oauth2_client::{
    Granted, OAuth2Client, PermissionNames, Rejected, TokenKind, foreign_client, unverified_claims,
};
use crate::scope::Permissions;
use crate::types::{
    Authenticated, ClientContext, Credentials, Introspection, Subject, UpstreamSession,
};

mod dialect;
mod settings;
mod wire;

pub use settings::KeycloakSettings;

use wire::{IntrospectedToken, TokenGrant, UnverifiedRefreshToken};

/// A section of the settings to start from.
pub(crate) const EXAMPLE: &str = include_str!("keycloak/example.toml");

const NAME: &str = "keycloak";

/// How long a login waits at most for the permissions, without which it can succeed.
const LOGIN_INTROSPECTION_DEADLINE: Duration = Duration::from_secs(2);

/// How long a confirmation of the issuer applies to further inactive sessions, so that many of them cause few calls.
const ISSUER_CONFIRMED: Duration = Duration::from_secs(1);

/// One realm of a Keycloak, as one confidential client.
#[derive(Debug)]
struct Keycloak {
    server: OAuth2Client,
    discovery: Url,
    token: Url,
    introspection: Url,
    logout: Url,
    keys: Url,
    settings: KeycloakSettings,
    clock: Arc<dyn Clock>,
    /// When the call began that last confirmed the issuer of inactive sessions. Locked during such a call, so that the
    /// others wait for it.
    issuer_confirmed_at: Mutex<Option<Moment>>,
    /// The role with the default roles of the realm, which every user has.
    default_roles: String,
    names: PermissionNames,
}

impl Keycloak {
    /// Logs in by direct grant (RFC 6749 section 4.3), and introspects the new session for its
    /// permissions.
    async fn log_in(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        if !self.server.proofs.issuer.is_recorded() {
            self.server.confirm_issuer(&self.discovery).await?;
        }
        // Requests no scope: `openid` would add an id token that is not used, `offline_access` a session
        // without an end.
        let otp = credentials.otp().map(|otp| ("otp", otp.expose_secret()));
        let granted = self
            .server
            .password_grant(&self.token, credentials, otp, client);
        let Granted { tokens, response } = granted.await?;
        let abandoned = abandoned::guard(NAME, &self.server.http, || {
            let tokens = tokens.iter();
            let refresh_tokens = tokens.filter(|(kind, _)| *kind == TokenKind::RefreshToken);
            let requests = refresh_tokens.map(|(_, token)| self.logout_request(token));
            requests.collect()
        });
        let mut login = match response {
            Ok(grant) => read_grant(grant, &self.settings.client.client_id)?,
            Err(Rejected::InvalidGrant(description)) => {
                return Err(IamError::Refused(dialect::login_refusal(&description)));
            }
            Err(Rejected::Unclassified { fault, .. }) => {
                return Err(self.server.unclassified(fault, &self.introspection).await);
            }
            Err(rejected) => return Err(rejected.into_fault()),
        };
        let introspected = self.introspect_once(&login.session);
        let introspected = within_call(LOGIN_INTROSPECTION_DEADLINE, introspected).await;
        match self.server.record(introspected) {
            Ok(Introspection::Active {
                permissions,
                groups,
                claims,
                ..
            }) => {
                login.permissions = Some(permissions);
                (login.groups, login.claims) = (groups, claims);
            }
            Ok(Introspection::Inactive) => {
                return Err(self.server.proofs.active_session_reported_inactive());
            }
            // The login succeeds. The first exchange introspects again, and reports the fault.
            Err(error) => {
                tracing::warn!(
                    iam.adapter = NAME,
                    error = %format_args!("{error:#}"),
                    "login without permissions: the introspection of the new session failed"
                );
            }
        }
        ScopeGuard::into_inner(abandoned);
        Ok(login)
    }

    /// Introspection (RFC 7662) of the refresh token. Without the hint, Keycloak reads it as an access
    /// token and reports it as inactive.
    async fn introspect_once(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let token = session.secret.expose_secret();
        let introspected = self
            .server
            .introspect(&self.introspection, token, "refresh_token");
        let UniqueMembers(members) = introspected.await?;
        let response = IntrospectedToken::deserialize(&members).map_err(|_| {
            IamError::Unreadable("introspection response with members of other types".into())
        })?;
        if !response.active {
            return Ok(Introspection::Inactive);
        }
        let is_same = response.sub.as_deref() == Some(session.subject.as_str())
            && response.sid.as_deref() == Some(session.id.as_str())
            && response.is_of_client(&self.settings.client.client_id);
        if !is_same {
            self.check_client(session)?;
            return Err(IamError::Unreadable(
                "the introspection response is about another session, subject or client".into(),
            ));
        }
        self.server.proofs.record_active();
        Ok(Introspection::Active {
            subject: session.subject.clone(),
            permissions: self.permissions(&response),
            groups: response.group_names(),
            claims: self.settings.client.claims.read(&members)?,
        })
    }

    /// The roles of the client, or of the realm, without those that every user has for Keycloak's own
    /// purposes, and without names that are not valid in a scope.
    fn permissions(&self, response: &IntrospectedToken) -> Permissions {
        let roles = match &self.settings.permissions_client {
            None => Some(&response.realm_access),
            Some(client) => response.resource_access.get(client),
        };
        let names = roles.into_iter().flat_map(|roles| &roles.roles);
        self.names.read(names.map(String::as_str).filter(|name| {
            *name != self.default_roles && !matches!(*name, "offline_access" | "uma_authorization")
        }))
    }

    /// Decides whether "inactive" means that the session has ended. Keycloak also reports an active
    /// session as inactive to another client, under another host name, or if it ignores the hint. Then
    /// all users would be logged out.
    async fn confirm_inactive(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.check_client(session)?;
        if self.server.proofs.active.is_recorded() {
            // The issuer may have changed since that proof, and then new sessions are still active.
            self.confirm_issuer().await?;
            return Ok(Introspection::Inactive);
        }
        // Only until introspection is proven, because a refresh writes at Keycloak, extends the idle
        // timeout and, in a realm that rotates refresh tokens, invalidates this one.
        let refreshed = self.server.refresh_grant(&self.token, &session.secret);
        match refreshed.await.map(|_: TokenGrant| ()) {
            Ok(()) => Err(self.server.proofs.active_session_reported_inactive()),
            Err(Rejected::InvalidGrant(_)) => Ok(Introspection::Inactive),
            Err(rejected) => Err(rejected.into_fault()),
        }
    }

    /// Confirms the issuer, unless that was done within [`ISSUER_CONFIRMED`].
    async fn confirm_issuer(&self) -> Result<(), IamError> {
        let mut confirmed_at = self.issuer_confirmed_at.lock().await;
        let now = self.clock.now();
        if confirmed_at.is_none_or(|at| now.since(at) >= ISSUER_CONFIRMED) {
            self.server.confirm_issuer(&self.discovery).await?;
            *confirmed_at = Some(now);
        }
        Ok(())
    }

    /// Refuses a session that names another client, because only that client may introspect or end it.
    /// A refresh token that names no client is accepted.
    fn check_client(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let token: Option<UnverifiedRefreshToken> =
            unverified_claims(session.secret.expose_secret());
        match token {
            Some(token) if token.azp != self.settings.client.client_id => Err(foreign_client()),
            Some(_) | None => Ok(()),
        }
    }

    async fn log_out(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let response = self
            .server
            .http
            .send(self.logout_request(&session.secret)?)
            .await?;
        match response.status {
            StatusCode::NO_CONTENT => return Ok(()),
            // A 200 with a page is the response of another server.
            StatusCode::OK if response.body.is_empty() => return Ok(()),
            _ => {}
        }
        match self.server.rejected(&response) {
            // Already ended, unless it is the session of another client.
            Rejected::InvalidGrant(_) => self.check_client(session),
            rejected => Err(rejected.into_fault()),
        }
    }

    /// Ends the user session, for all clients that share it.
    fn logout_request(&self, refresh_token: &SecretString) -> Result<RequestBuilder, IamError> {
        let refresh_token = refresh_token.expose_secret();
        self.server
            .post(&self.logout, &[("refresh_token", refresh_token)])
    }

    /// Fetches the realm's keys from the realm's own address. The address in the discovery document is
    /// not used, so that the document cannot redirect the call.
    async fn fetch_keys(&self) -> Result<VerificationKeys, IamError> {
        let keys = self.server.fetch_bytes(&self.keys).await?;
        VerificationKeys::parse(&keys)
            .map_err(|none| IamError::Unreadable(Detail::caused_by("the realm's keys", none)))
    }

    async fn prove(&self) -> Result<(), IamError> {
        self.server.confirm_issuer(&self.discovery).await?;
        self.server.prove(&self.token, &self.introspection).await
    }

    /// The cause of an error. Old versions respond to an unknown client as to a wrong secret at the
    /// introspection endpoint. The token endpoint distinguishes them in all versions.
    async fn cause_of(&self, error: IamError) -> IamError {
        let IamError::Misconfigured {
            what: Misconfiguration::ClientSecret,
            ..
        } = error
        else {
            return error;
        };
        match self.server.prove_grants(&self.token).await {
            Err(
                unknown @ IamError::Misconfigured {
                    what: Misconfiguration::UnknownClient,
                    ..
                },
            ) => unknown,
            _ => error,
        }
    }
}

#[async_trait]
impl IamAdapter for Keycloak {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &str {
        &self.server.issuer
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.server.record(self.log_in(credentials, client).await)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let introspected = match self.introspect_once(session).await {
            Ok(Introspection::Inactive) => self.confirm_inactive(session).await,
            Err(error) => Err(self.cause_of(error).await),
            active => active,
        };
        self.server.record(introspected)
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.server.record(self.log_out(session).await)
    }

    fn logout_audience(&self) -> Option<&str> {
        Some(&self.settings.client.client_id)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.server.record(self.fetch_keys().await)
    }

    async fn probe(&self) -> Result<(), IamError> {
        let proven = match self.prove().await {
            Err(error) => Err(self.cause_of(error).await),
            proven => proven,
        };
        self.server.record(proven)
    }
}

/// Reads the response of a password grant.
fn read_grant(grant: TokenGrant, client_id: &str) -> Result<Authenticated, IamError> {
    let Some(secret) = grant.refresh_token else {
        return Err(IamError::misconfigured(
            Misconfiguration::Other,
            "a login returns no refresh token: enable refresh tokens for the client",
        ));
    };
    let unreadable = |what: &str| IamError::Unreadable(format!("token response: {what}").into());
    let token: Option<UnverifiedRefreshToken> = unverified_claims(secret.expose_secret());
    let token = token.ok_or_else(|| unreadable("the refresh token is no JWT"))?;
    if token.azp != client_id {
        return Err(unreadable("the refresh token is another client's"));
    }
    if token.sid.is_empty() || grant.session_state.as_ref() != Some(&token.sid) {
        return Err(unreadable("session_state is not the refresh token's sid"));
    }
    let subject = Subject::new(token.sub).ok_or_else(|| unreadable("no subject"))?;
    Ok(Authenticated {
        session: UpstreamSession {
            subject,
            id: token.sid,
            secret,
        },
        expires_in: match grant.refresh_expires_in {
            0 => None,
            seconds => Some(Duration::from_secs(seconds)),
        },
        permissions: None,
        groups: None,
        claims: Claims::default(),
    })
}
