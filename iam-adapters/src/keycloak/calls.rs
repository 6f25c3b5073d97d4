//! One function for each request to Keycloak: what is sent, and what a success says.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use secrecy::ExposeSecret;

use super::wire::{Discovery, Grant, Introspected, UnverifiedRefreshToken};
use super::{Keycloak, dialect};
use crate::error::{IamError, Misconfiguration};
use crate::logout_token::{NoKeys, VerificationKeys};
use crate::oauth2::Rejected;
use crate::scope::Permissions;
use crate::types::{Authenticated, ClientContext, Credentials, Subject, UpstreamSession};

/// What introspection says of a session.
pub(super) enum Seen {
    Inactive,
    Active { permissions: Permissions },
}

impl Keycloak {
    /// Makes sure that this is the configured issuer (RFC 8414 section 3.3: identical).
    pub(super) async fn confirm_issuer(&self) -> Result<(), IamError> {
        let fetched = self.server.fetch(&self.discovery, "discovery document");
        let Discovery { issuer } = fetched.await?;
        if issuer != self.issuer {
            return Err(IamError::misconfigured(
                Misconfiguration::Issuer,
                format!(
                    "the discovery document names another one than {}: look at url and issuer",
                    self.issuer
                ),
            ));
        }
        self.issuer_confirmed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Direct grant (RFC 6749 section 4.3). No scope is asked for: `openid` would add an id token
    /// that nobody reads, `offline_access` a session that outlives all others.
    pub(super) async fn password_grant(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let granted = self
            .server
            .password_grant(&self.token, credentials, client)
            .await;
        if !matches!(granted, Err(Rejected::Fault(_))) {
            self.grants_proven.store(true, Ordering::Relaxed);
        }
        match granted {
            Ok(grant) => login(grant, &self.client_id),
            Err(Rejected::InvalidGrant(description)) => {
                Err(IamError::Refused(dialect::login_refusal(&description)))
            }
            Err(Rejected::Fault(fault)) => Err(fault),
        }
    }

    /// Introspection (RFC 7662) of the refresh token. Without the hint Keycloak takes it for an
    /// access token, and calls it inactive.
    pub(super) async fn look(&self, session: &UpstreamSession) -> Result<Seen, IamError> {
        let answer = self.introspected(session.secret.expose_secret()).await?;
        if !answer.active {
            return Ok(Seen::Inactive);
        }
        let same = answer.sub.as_deref() == Some(session.subject.as_str())
            && answer.sid.as_deref() == Some(session.id.as_str())
            && answer.is_of_client(&self.client_id);
        if !same {
            return Err(IamError::Unreadable(
                "introspection speaks of another session, subject or client".to_owned(),
            ));
        }
        self.introspection_proven.store(true, Ordering::Relaxed);
        self.introspection_lied.store(false, Ordering::Relaxed);
        Ok(Seen::Active {
            permissions: self.roles.permissions(&answer),
        })
    }

    /// Proves our credentials by asking about a token that nobody made.
    pub(super) async fn prove_credentials(&self) -> Result<(), IamError> {
        if self.introspected("probe").await?.active {
            return Err(IamError::Unreadable(
                "introspection calls a made-up token active".to_owned(),
            ));
        }
        Ok(())
    }

    /// Proves that users may log in by direct grant, with one that names no user: that is held
    /// against it only after all that there is to hold against the client.
    pub(super) async fn prove_grants(&self) -> Result<(), IamError> {
        let request = self.server.post(&self.token);
        let request = request.form(&[("grant_type", "password")]);
        let answer = self.server.send(request).await?;
        if answer.status != StatusCode::OK {
            match self.server.rejected(&answer) {
                // `invalid_request`: the missing user, in whatever words.
                Rejected::InvalidGrant(_)
                | Rejected::Fault(IamError::Misconfigured {
                    what: Misconfiguration::Other,
                    ..
                }) => {}
                Rejected::Fault(fault) => return Err(fault),
            }
        }
        self.grants_proven.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Refresh grant (RFC 6749 section 6), for its yes or no alone.
    pub(super) async fn refresh(&self, session: &UpstreamSession) -> Result<(), Rejected> {
        let refreshed = self.server.refresh_grant(&self.token, &session.secret);
        refreshed.await.map(|_: Grant| ())
    }

    /// Ends the user session, for every client that shares it.
    pub(super) async fn end(&self, session: &UpstreamSession) -> Result<(), Rejected> {
        let answer = self.server.send(self.ending(session)).await?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(()),
            // A page that says 200 is somebody else's answer.
            StatusCode::OK if answer.body.is_empty() => Ok(()),
            _ => Err(self.server.rejected(&answer)),
        }
    }

    /// The request that ends a user session.
    pub(super) fn ending(&self, session: &UpstreamSession) -> RequestBuilder {
        self.server
            .post(&self.logout)
            .form(&[("refresh_token", session.secret.expose_secret())])
    }

    /// The realm's keys, from the realm's own address and not from the one that the discovery
    /// document names: there is nothing to learn from it, and nothing to be led astray by.
    pub(super) async fn fetch_keys(&self) -> Result<VerificationKeys, IamError> {
        let keys = self.server.fetch_bytes(&self.keys).await?;
        VerificationKeys::parse(&keys)
            .map_err(|NoKeys| IamError::Unreadable("the realm's keys".to_owned()))
    }

    async fn introspected(&self, token: &str) -> Result<Introspected, IamError> {
        self.server
            .introspect(&self.introspection, token, "refresh_token")
            .await
    }
}

fn login(grant: Grant, client_id: &str) -> Result<Authenticated, IamError> {
    let Some(secret) = grant.refresh_token else {
        return Err(IamError::misconfigured(
            Misconfiguration::Other,
            "a login gives no refresh token: switch on refresh tokens for the client",
        ));
    };
    let unreadable = |what: &str| IamError::Unreadable(format!("token answer: {what}"));
    let token = UnverifiedRefreshToken::read(&secret)
        .ok_or_else(|| unreadable("the refresh token is no JWT"))?;
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
    })
}
