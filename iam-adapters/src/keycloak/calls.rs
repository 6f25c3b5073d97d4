//! One function for each request to Keycloak: what is sent, and what a success says.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, StatusCode};
use secrecy::ExposeSecret;
use url::Url;

use super::Keycloak;
use super::refusal::{self, No};
use super::wire::{self, Discovery, Grant, Introspected, UnverifiedRefreshToken};
use crate::client::Answer;
use crate::error::{IamError, Misconfiguration};
use crate::logout_token::{NoKeys, VerificationKeys};
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
        let answer = self.client.send(self.client.get(&self.discovery)).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal::of(&answer).into_fault());
        }
        let Discovery { issuer } = read(&answer, "discovery document")?;
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
        let mut request = self.as_client(&self.token).form(&[
            ("grant_type", "password"),
            ("username", credentials.email()),
            ("password", credentials.password().expose_secret()),
        ]);
        if let Some(address) = client.address {
            request = request.header("x-forwarded-for", address.to_canonical().to_string());
        }
        if let Ok(request_id) = HeaderValue::from_str(&client.request_id) {
            request = request.header("x-request-id", request_id);
        }
        let answer = self.client.send(request).await?;
        if answer.status != StatusCode::OK {
            return Err(match refusal::of(&answer) {
                No::Grant(description) => {
                    self.grants_proven.store(true, Ordering::Relaxed);
                    IamError::Refused(refusal::of_login(&description))
                }
                No::Fault(fault) => fault,
            });
        }
        self.grants_proven.store(true, Ordering::Relaxed);
        login(read(&answer, "token answer")?, &self.client_id)
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
        let request = self.as_client(&self.token);
        let request = request.form(&[("grant_type", "password")]);
        let answer = self.client.send(request).await?;
        if answer.status != StatusCode::OK {
            match refusal::of(&answer) {
                // `invalid_request`: the missing user, in whatever words.
                No::Grant(_)
                | No::Fault(IamError::Misconfigured {
                    what: Misconfiguration::Other,
                    ..
                }) => {}
                No::Fault(fault) => return Err(fault),
            }
        }
        self.grants_proven.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Refresh grant (RFC 6749 section 6), for its yes or no alone.
    pub(super) async fn refresh(&self, session: &UpstreamSession) -> Result<(), No> {
        let request = self.as_client(&self.token).form(&[
            ("grant_type", "refresh_token"),
            ("refresh_token", session.secret.expose_secret()),
        ]);
        let answer = self.client.send(request).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal::of(&answer));
        }
        read::<Grant>(&answer, "token answer")?;
        Ok(())
    }

    /// Ends the user session, for every client that shares it.
    pub(super) async fn end(&self, session: &UpstreamSession) -> Result<(), No> {
        let request = self
            .as_client(&self.logout)
            .form(&[("refresh_token", session.secret.expose_secret())]);
        let answer = self.client.send(request).await?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(()),
            // A page that says 200 is somebody else's answer.
            StatusCode::OK if answer.body.is_empty() => Ok(()),
            _ => Err(refusal::of(&answer)),
        }
    }

    /// The realm's keys, from the realm's own address and not from the one that the discovery
    /// document names: there is nothing to learn from it, and nothing to be led astray by.
    pub(super) async fn fetch_keys(&self) -> Result<VerificationKeys, IamError> {
        let answer = self.client.send(self.client.get(&self.keys)).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal::of(&answer).into_fault());
        }
        VerificationKeys::parse(&answer.body)
            .map_err(|NoKeys| IamError::Unreadable("the realm's keys".to_owned()))
    }

    async fn introspected(&self, token: &str) -> Result<Introspected, IamError> {
        let request = self
            .as_client(&self.introspection)
            .form(&[("token", token), ("token_type_hint", "refresh_token")]);
        let answer = self.client.send(request).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal::of(&answer).into_fault());
        }
        read(&answer, "introspection answer")
    }

    fn as_client(&self, url: &Url) -> RequestBuilder {
        self.client
            .post(url)
            .basic_auth(&self.basic_id, Some(self.basic_secret.expose_secret()))
    }
}

fn read<T: serde::de::DeserializeOwned>(answer: &Answer, what: &str) -> Result<T, IamError> {
    wire::object(&answer.body)
        .map_err(|wire::Unreadable| IamError::Unreadable(format!("{what} with status 200")))
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
        .map_err(|wire::Unreadable| unreadable("the refresh token is no JWT"))?;
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
