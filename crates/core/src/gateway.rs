//! The gateway: its operations over its IAMs, keys and tables.

use std::sync::Arc;

use futures_util::future::join_all;
use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::{
    Authenticated, ClientContext, Credentials, IamError, LogoutTokens, Moment, Refusal, Scope,
    UpstreamSession, UserData, abandoned,
};
use opentelemetry::trace::FutureExt as _;
use scopeguard::ScopeGuard;
use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;
use tracing::Instrument as _;
use zeroize::Zeroizing;

use crate::access_token::{self, Exchanged, Grant, TokenPolicy};
use crate::error::{GatewayError, InvalidSession, NotReady};
use crate::event::{Event, LoginEnd};
use crate::iams::{Iam, IamParts, Iams};
use crate::identifiers::Identifier;
use crate::introspection_cache::{ActiveSession, IntrospectionRequest};
use crate::login_limiter::Limits;
use crate::logout_token_limiter::LogoutTokenRateLimiter;
use crate::replica_state::ReplicaState;
use crate::request::RequestContext;
use crate::results::{DataSource, EndedByIam, LoggedOut, NewSession};
use crate::revocations::Cause;
use crate::session::{OpenedSession, SessionTokens};
use crate::session_id::SessionId;
use crate::session_revoker::SessionRevoker;
use crate::upstream_logouts::UpstreamLogout;

/// The settings that all IAMs share.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The bound of the cached data of all IAMs together, in bytes.
    pub cache_bytes: u64,
    /// The limits of logins.
    pub login_limits: Limits,
    /// The claims that all access tokens have in common.
    pub token: TokenPolicy,
    /// The scope of a request without one.
    pub default_scope: String,
    /// Whether a request is refused if no scope is granted.
    pub refuse_empty_scope: bool,
}

/// The gateway in front of its IAMs.
#[derive(derive_more::Debug)]
#[debug("Gateway {{ iams: {iams:?}, policy: {policy:?}, .. }}")]
pub struct Gateway {
    /// The IAMs.
    pub iams: Arc<Iams>,
    /// The settings that all IAMs share.
    pub policy: Policy,
    /// The keys, the tables and what else belongs to this replica.
    pub replica: Arc<ReplicaState>,
    /// Records and publishes revocations.
    pub session_revoker: SessionRevoker,
    session_tokens: SessionTokens,
    logout_token_limiter: LogoutTokenRateLimiter,
}

impl Gateway {
    /// A gateway in front of these IAMs, of which no two have the same issuer or the same prefix of subjects.
    #[must_use]
    pub fn new(iams: Vec<IamParts>, policy: Policy, replica: ReplicaState) -> Self {
        let replica = Arc::new(replica);
        let iams = Arc::new(Iams::new(iams, policy.cache_bytes, &replica));
        Self {
            session_tokens: SessionTokens::new(Arc::clone(&iams), Arc::clone(&replica)),
            session_revoker: SessionRevoker::new(Arc::clone(&iams), Arc::clone(&replica)),
            logout_token_limiter: LogoutTokenRateLimiter::new(Arc::clone(
                &replica.keys.identifiers,
            )),
            iams,
            policy,
            replica,
        }
    }

    /// Refuses a login from an address that has no attempts left, unless the address is known to the
    /// account of this e-mail address, and any login while no IAM has any of its rate left. `email` is
    /// `None` for a request that is no valid login. Counts nothing.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogins`] with the limit and the time to wait.
    pub fn admit_login(
        &self,
        request: &RequestContext,
        email: Option<&str>,
    ) -> Result<(), GatewayError> {
        let admitted = (self.replica.login_limiter).admit(request.client, email, self.iams.rates());
        admitted.inspect_err(|error| {
            self.emit(&Event::Login {
                request,
                account: None,
                iam: None,
                reaches_iam: false,
                end: LoginEnd::Decided(Err(error)),
            });
        })
    }

    /// Verifies credentials at the IAM of their domain within the login limits, and begins a session.
    /// Never retried, also not at another IAM, and never cached.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Refused`] if the IAM refuses the credentials, or if no IAM allows logins with an
    /// address of this domain. [`GatewayError::TooManyLogins`] or [`GatewayError::NotReady`] if it is not
    /// called, otherwise a fault.
    pub async fn log_in(
        &self,
        request: &RequestContext,
        credentials: &Credentials,
    ) -> Result<NewSession, GatewayError> {
        let account = self.replica.keys.identifiers.account(credentials.email());
        let iam = self.iams.for_login(credentials.email());
        // No IAM receives an empty password.
        let reaches_iam = iam.is_some() && !credentials.has_empty_password();
        let event = |end| Event::Login {
            request,
            account: Some((credentials.email(), account)),
            iam: iam.map(|iam| &iam.name),
            reaches_iam,
            end,
        };
        // Emitted if the client does not wait.
        let unfinished = scopeguard::guard(event(LoginEnd::Unknown), |event| self.emit(&event));
        let beginning = self.begin_session(request, iam, account, credentials, reaches_iam);
        let result = beginning.await;
        ScopeGuard::into_inner(unfinished);
        self.emit(&event(LoginEnd::Decided(result.as_ref())));
        result
    }

    async fn begin_session(
        &self,
        request: &RequestContext,
        iam: Option<&Iam>,
        account: Identifier,
        credentials: &Credentials,
        reaches_iam: bool,
    ) -> Result<NewSession, GatewayError> {
        let client = &ClientContext {
            address: request.client,
            request_id: request.id.as_str().to_owned(),
        };
        let session_id = SessionId::generate(&*self.replica.random)?;
        let requested_at = self.replica.clock.now();
        if !self.replica.revocations.has_room(requested_at) {
            return Err(NotReady::TooManyRevocations.into());
        }
        let call = async {
            // There is one, or the call is not made.
            let iam = iam.ok_or(IamError::Refused(Refusal::InvalidCredentials))?;
            let authenticated = iam.adapter.authenticate(credentials, client).await?;
            Ok((iam, authenticated))
        };
        let rate = iam.and_then(|iam| iam.rate.as_ref());
        let limited = self.replica.login_limiter.limit(
            account,
            credentials.email(),
            client.address,
            reaches_iam,
            rate,
            call,
        );
        let (iam, authenticated) = limited.await?;
        let verified_at = self.replica.clock.now().unix_seconds();
        let expires_at = expiry(iam, &authenticated, requested_at);

        let upstream = &authenticated.session;
        let (session_token, content) = self
            .session_tokens
            .seal(iam, session_id, upstream, requested_at, expires_at)
            .inspect_err(|_| abandon(iam, upstream))?;
        let key = iam.introspection_cache.session_key(session_id, &content);
        let subject = upstream.subject.as_str();
        let fingerprint = (iam.introspection_cache).fingerprint(key, &session_token, subject);
        let claims = authenticated.claims;
        let user = authenticated.permissions.map(|permissions| {
            Arc::new(UserData {
                permissions,
                claims,
            })
        });
        if let Some(user) = &user {
            let id = self.session_tokens.revocation_id(session_id, requested_at);
            iam.introspection_cache
                .publish(&fingerprint, id, requested_at, user);
        }
        iam.introspection_cache
            .insert(&fingerprint, requested_at, user);
        Ok(NewSession {
            sub: iam.sub(upstream.subject.as_str()).into_owned(),
            session_id,
            session_token: session_token.into(),
            verified_at,
            expires_at,
        })
    }

    /// Ends the new session of a login that is not recorded in the audit log, in a task of its own. If the
    /// IAM fails, this is finished later.
    pub fn withdraw_login(
        self: &Arc<Self>,
        request: &RequestContext,
        credentials: &Credentials,
        session: NewSession,
    ) {
        let iam = self.iams.for_login(credentials.email());
        let account = self.replica.keys.identifiers.account(credentials.email());
        self.emit(&Event::Login {
            request,
            account: Some((credentials.email(), account)),
            iam: iam.map(|iam| &iam.name),
            reaches_iam: true,
            end: LoginEnd::Withdrawn(&session),
        });
        // A request may be dropped after its runtime has stopped. The session then ends when it expires.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let gateway = Arc::clone(self);
        let ending = async move {
            let (id, token) = (session.session_id.to_string(), &session.session_token);
            let mut buffer = Zeroizing::default();
            let opened = (gateway.session_tokens).open(&id, token.expose_secret(), &mut buffer);
            if let Ok(opened) = opened {
                let _ = gateway.end_session(&opened).await;
            }
        };
        runtime.spawn(ending.in_current_span().with_current_context());
    }

    /// Exchanges a session for an access token with the requested scope, as far as the user has the
    /// permissions.
    ///
    /// # Errors
    ///
    /// [`GatewayError::InvalidSession`], [`GatewayError::NothingGranted`],
    /// [`GatewayError::NotReady`] after a start, or a fault.
    pub async fn exchange(
        &self,
        request: &RequestContext,
        session_id: &str,
        session_token: &str,
        scope: Scope<'_>,
    ) -> Result<Exchanged, GatewayError> {
        let mut iam = None;
        let exchanged = self.issue(request, session_id, session_token, scope, &mut iam);
        let result = exchanged.await;
        self.emit(&Event::Exchange {
            request,
            iam,
            result: result.as_ref().map(|exchanged| exchanged.source),
        });
        result
    }

    /// `iam_name` becomes the name of the session's IAM, if the pair is that of a session.
    async fn issue<'g>(
        &'g self,
        request: &RequestContext,
        session_id: &str,
        session_token: &str,
        scope: Scope<'_>,
        iam_name: &mut Option<&'g Arc<str>>,
    ) -> Result<Exchanged, GatewayError> {
        if self.replica.revocations.is_catching_up() {
            return Err(NotReady::CatchingUp.into());
        }
        let arrived = self.replica.clock.now();
        let mut buffer = Zeroizing::default();
        let opened = self
            .session_tokens
            .open(session_id, session_token, &mut buffer)?;
        let (iam, session) = (opened.iam, &opened.session);
        *iam_name = Some(&iam.name);
        let revocation_ids = opened.revocation_ids();
        // Before the expiry is checked, so that both refusals take the same time.
        let revoked = self.replica.revocations.refuse_revoked(&revocation_ids);
        if session.has_expired(arrived) {
            return Err(InvalidSession::Expired.into());
        }
        revoked?;
        let key = iam
            .introspection_cache
            .session_key(opened.id, opened.content);
        let fresh = iam.introspection_cache.fresh(&key, arrived);
        let (ActiveSession { user, source }, now) = if let Some(user) = fresh {
            (ActiveSession::new(user, DataSource::Hit), arrived)
        } else {
            let introspected = IntrospectionRequest {
                fingerprint: (iam.introspection_cache).fingerprint(
                    key,
                    session_token,
                    &session.sub,
                ),
                revocation: opened.revocation(Cause::Inactive),
                upstream: session.upstream().ok_or(InvalidSession::Malformed)?,
            };
            // Exchanges with cached data log nothing here, and a span would cost them 1 %.
            let introspection = iam.introspection_cache.introspect(introspected, arrived);
            let introspection = introspection.instrument(request.log_span());
            let introspection = introspection.with_context(request.trace.clone());
            // Boxed: otherwise the future of every exchange would have its size.
            let active = Box::pin(introspection).await?;
            // Again: what happened during the introspection must have an effect.
            self.replica.revocations.refuse_revoked(&revocation_ids)?;
            let now = self.replica.clock.now();
            if session.has_expired(now) {
                return Err(InvalidSession::Expired.into());
            }
            (active, now)
        };
        let allowed = iam.policy.allowed_scopes.as_ref();
        let granted = self.effective(scope).granted(&user.permissions, allowed);
        if granted.is_empty() && self.policy.refuse_empty_scope {
            return Err(GatewayError::NothingGranted);
        }
        let grant = Grant {
            subject: &iam.sub(&session.sub),
            session_id,
            scope: &granted,
            session_expires_at: session.exp,
            claims: &user.claims,
        };
        let token = access_token::issue(
            &self.replica.keys.signing.key_set(),
            &self.policy.token,
            grant,
            now,
            &*self.replica.random,
        )?;
        Ok(Exchanged {
            token,
            scope: granted,
            source,
        })
    }

    /// Ends a session: first at this replica, then at the IAM, then at the other replicas. Access
    /// tokens that were issued stay valid.
    ///
    /// A session that has ended is a success, so that a client which lost the response can repeat the
    /// request. If the IAM fails, the session is still revoked at every replica, and
    /// [`UpstreamLogouts`] repeats the call later. Logouts of one session that arrive during the call to
    /// the IAM share that call and its result. So no client can use up the concurrent logouts with one
    /// session.
    ///
    /// # Errors
    ///
    /// [`GatewayError::InvalidSession`] if the pair does not open, otherwise a fault.
    pub async fn log_out(
        &self,
        request: &RequestContext,
        session_id: &str,
        session_token: &str,
    ) -> Result<(), GatewayError> {
        let mut buffer = Zeroizing::default();
        let opened = (self.session_tokens).open(session_id, session_token, &mut buffer);
        let logged_out = opened.as_ref().ok().map(|opened| LoggedOut {
            session_id: opened.id,
            sub: opened.iam.sub(&opened.session.sub).into_owned(),
            iam: Arc::clone(&opened.iam.name),
        });
        let event = |result| Event::Logout {
            request,
            session: logged_out.as_ref(),
            result,
        };
        // Emitted if the client does not wait.
        let unfinished = scopeguard::guard(event(None), |event| self.emit(&event));
        let result = match opened {
            Ok(opened) => self.end_session(&opened).await,
            Err(error) => Err(error),
        };
        ScopeGuard::into_inner(unfinished);
        self.emit(&event(Some(result.as_ref().map(|&()| ()))));
        result
    }

    async fn end_session(&self, opened: &OpenedSession<'_, '_>) -> Result<(), GatewayError> {
        let now = self.replica.clock.now();
        let logged_out = opened.revocation(Cause::LoggedOut);
        // One that has expired by this clock alone may be active by that of another replica, and here again when the
        // clock is right.
        if logged_out.forget_at <= now.unix_seconds() {
            return Ok(());
        }
        let upstream_logouts = &opened.iam.upstream_logouts;
        let has_ended_upstream =
            || self.replica.revocations.cause_of(&opened.revocation_ids()) == Some(Cause::Upstream);
        self.replica.revocations.record(&logged_out, now);
        if has_ended_upstream() {
            upstream_logouts.ended_otherwise(logged_out.id);
            // This replica may know that from the IAM, which did not inform the others.
            self.replica.publish(logged_out, now).await;
            return Ok(());
        }
        let upstream = opened.session.upstream();
        let logout = UpstreamLogout {
            upstream: upstream.ok_or(InvalidSession::Malformed)?,
            session_id: opened.id,
            confirmed: opened.revocation(Cause::Upstream),
        };
        let flight = upstream_logouts.calls.join_or_start(
            logged_out.id,
            now,
            // Also one that began long ago: an ended session does not become active again.
            |_| true,
            || has_ended_upstream().then_some(Ok(())),
            || {
                let ending = Arc::clone(upstream_logouts).end(logout);
                // Also sent if a worker that stops drops this task.
                let unsent = scopeguard::guard(Arc::clone(&self.replica), move |replica| {
                    drop(replica.publish(logged_out, now));
                });
                async move {
                    let ended = ending.await;
                    let replica = ScopeGuard::into_inner(unsent);
                    replica.publish(logged_out, now).await;
                    ended
                }
            },
        );
        Ok(flight.result.await??)
    }

    /// Ends the sessions that a logout token names (OpenID Connect Back-Channel Logout 1.0). IAMs send
    /// it once or not at all, so only the freshness of cached data is guaranteed.
    ///
    /// The only call to the IAM is for its keys, and rare. So an IAM may send the token during a login
    /// or logout and wait for the response.
    ///
    /// # Errors
    ///
    /// [`GatewayError::NoLogoutTokens`], [`GatewayError::InvalidLogoutToken`],
    /// [`GatewayError::NotReady`] if the IAM has sent too many, or a fault. No session has been ended then.
    pub async fn receive_logout_token(
        &self,
        request: &RequestContext,
        token: &str,
    ) -> Result<EndedByIam, GatewayError> {
        let sender = self.iams.for_logout_token(token);
        let iam = sender.as_ref().ok().map(|(iam, _)| &iam.name);
        let result = match sender {
            Ok((iam, tokens)) => {
                let ending = self.end_by_logout_token(iam, tokens, token);
                ending.instrument(request.log_span()).await
            }
            Err(error) => Err(error),
        };
        (self.logout_token_limiter).record(request.client, &result, self.replica.clock.now());
        self.emit(&Event::LogoutToken {
            request,
            iam,
            result: result.as_ref(),
        });
        result
    }

    /// Refuses a logout token unread, if its sender has sent too many invalid ones.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogoutTokens`] with the time to wait.
    pub fn admit_logout_token(&self, request: &RequestContext) -> Result<(), GatewayError> {
        let admitted = (self.logout_token_limiter).admit(request.client, self.replica.clock.now());
        admitted.inspect_err(|error| {
            self.emit(&Event::LogoutToken {
                request,
                iam: None,
                result: Err(error),
            });
        })
    }

    /// Hands an event to every subscriber.
    pub fn emit(&self, event: &Event<'_>) {
        self.replica.subscribers.emit(event);
    }

    async fn end_by_logout_token(
        &self,
        iam: &Iam,
        tokens: &LogoutTokens,
        token: &str,
    ) -> Result<EndedByIam, GatewayError> {
        let verified = tokens.verify(token).await?;
        if self.session_revoker.is_used(iam, &verified.jti) {
            return Err(GatewayError::InvalidLogoutToken(
                InvalidLogoutToken::Replayed,
            ));
        }
        let now = self.replica.clock.now();
        if !iam.admit_logout_token(now) || !self.replica.revocations.has_room_for_reports(now) {
            return Err(NotReady::TooManyRevocations.into());
        }
        self.session_revoker
            .end_by_logout_token(iam, &verified.ended, verified.issued_at);
        // Last, so that the IAM can send a token again if its processing failed.
        self.session_revoker.mark_used(iam, &verified);
        let sub = match &verified.ended {
            Ended::Session(_) => None,
            Ended::AllOf(subject) => Some(iam.sub(subject.as_str()).into_owned()),
        };
        Ok(EndedByIam {
            sub,
            ended: verified.ended,
        })
    }

    /// Finishes the failed logouts of every IAM periodically. Does not return.
    pub async fn finish_logouts(self: Arc<Self>) {
        let running = self.iams.iter();
        let running = running.map(|iam| Arc::clone(&iam.upstream_logouts).run());
        join_all(running).await;
    }

    /// The requested scope, or the default. The default was parsed when the settings were read.
    fn effective<'a>(&'a self, requested: Scope<'a>) -> Scope<'a> {
        if requested.is_empty() {
            Scope::parse(&self.policy.default_scope).unwrap_or(Scope::EMPTY)
        } else {
            requested
        }
    }
}

/// When a session expires, in seconds since 1970.
fn expiry(iam: &Iam, authenticated: &Authenticated, requested_at: Moment) -> u64 {
    let max_lifetime = iam.policy.session_max_lifetime;
    let lifetime = authenticated
        .expires_in
        .map_or(max_lifetime, |promised| promised.min(max_lifetime));
    requested_at.unix_seconds() + lifetime.as_secs()
}

/// Ends an IAM session whose client gets no session token. The client does not wait for it.
fn abandon(iam: &Iam, upstream: &UpstreamSession) {
    abandoned::end_session(Arc::clone(&iam.adapter), upstream.clone());
}

#[cfg(test)]
pub(crate) mod tests;
