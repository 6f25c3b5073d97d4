//! Login, exchange and logout: one IAM, one set of keys, and what is known of sessions. No HTTP, no
//! particular IAM, no Redis.

mod access_token;
pub mod error;
pub mod keys;
pub mod knowledge;
pub mod login_limiter;
pub mod revocations;
pub mod session;
pub mod session_ends;
mod single_flight;

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use base64::engine::general_purpose::NO_PAD;
use base64::engine::simd::Simd;
use iam_adapters::logout_token::Ended;
use iam_adapters::{
    Authenticated, ClientAddress, ClientContext, Clock, Credentials, IamAdapter, IamError,
    LogoutTokens, Moment, Scope, UpstreamSession, abandoned,
};
use tracing::Instrument as _;
use zeroize::Zeroizing;

pub use access_token::{AccessToken, Exchanged, TokenPolicy};
pub use session::NewSession;

use access_token::Grant;
use error::{GatewayError, Internal, InvalidSession, NotReady};
use keys::Keys;
use knowledge::{Freshness, Inquiry, Knowledge, Source};
use login_limiter::{Account, Limits, LoginRateLimiter};
use revocations::{End, Name, Revocations};
use session::{ConstantTimeFallback, SessionId, SessionTokens};
use session_ends::SessionEnds;
use single_flight::{Admission, SingleFlight};

/// base64url without padding (RFC 7515 section 2), refusing everything that is not canonical.
static BASE64: LazyLock<Simd> = LazyLock::new(|| Simd::url_safe(NO_PAD));

/// The source of identifiers and nonces; an argument, so that a test can make it fail.
pub trait Random: fmt::Debug + Send + Sync {
    /// Fills the bytes with random ones that cannot be guessed.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] where the machine gives none.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal>;
}

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
        aws_lc_rs::rand::SecureRandom::fill(self, bytes).map_err(|_| Internal::Random)
    }
}

/// What an operator decides about sessions and tokens.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How old knowledge may be.
    pub freshness: Freshness,
    /// How many logins may be attempted.
    pub login_limits: Limits,
    /// The longest life of a session, also where the IAM promises a longer one.
    pub session_max_lifetime: Duration,
    /// The claims that all tokens have in common.
    pub token: TokenPolicy,
    /// The scope of a request that names none.
    pub default_scope: String,
    /// Whether a request of which nothing is granted is refused.
    pub refuse_empty_scope: bool,
}

/// What a gateway is made of.
#[derive(Debug)]
pub struct GatewayParts {
    /// The IAM, behind its deadlines, limits and circuits.
    pub iam: Arc<dyn IamAdapter>,
    /// What signs tokens and seals sessions.
    pub keys: Arc<Keys>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The source of identifiers and nonces.
    pub random: Arc<dyn Random>,
    /// What the operator decides.
    pub policy: Policy,
    /// The table of revocations, empty at the start.
    pub revocations: Revocations,
}

/// The gateway in front of one IAM.
pub struct Gateway {
    iam: Arc<dyn IamAdapter>,
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    policy: Policy,
    session_tokens: SessionTokens,
    knowledge: Arc<Knowledge>,
    revocations: Arc<Revocations>,
    session_ends: Arc<SessionEnds>,
    /// `None`: the IAM sends none.
    logout_tokens: Option<LogoutTokens>,
    login_limiter: LoginRateLimiter,
    /// The logouts in flight at the IAM, by the name of the session's end.
    logouts: SingleFlight<Name, Result<(), IamError>>,
}

/// A login that was attempted.
#[derive(Debug)]
pub struct LoginAttempt {
    /// The account in the log: the same for all spellings of its e-mail address.
    pub account: Account,
    /// The new session, or why there is none.
    pub result: Result<NewSession, GatewayError>,
}

impl Gateway {
    /// Puts a gateway in front of an IAM.
    #[must_use]
    pub fn new(parts: GatewayParts) -> Self {
        let GatewayParts {
            iam,
            keys,
            clock,
            random,
            policy,
            revocations,
        } = parts;
        let revocations = Arc::new(revocations);
        let knowledge = Knowledge::new(
            Arc::clone(&iam),
            Arc::clone(&clock),
            Arc::clone(&revocations),
            policy.freshness,
        );
        let session_tokens = SessionTokens {
            fallback: ConstantTimeFallback::of(&*iam),
            adapter: iam.name(),
            issuer: iam.issuer().to_owned(),
            keys: Arc::clone(&keys),
            clock: Arc::clone(&clock),
            random: Arc::clone(&random),
            revocations: Arc::clone(&revocations),
        };
        let session_ends = SessionEnds::new(
            Arc::clone(&iam),
            Arc::clone(&keys),
            Arc::clone(&clock),
            policy.session_max_lifetime,
            Arc::clone(&revocations),
        );
        Self {
            session_tokens,
            knowledge: Arc::new(knowledge),
            revocations,
            session_ends: Arc::new(session_ends),
            logout_tokens: LogoutTokens::of(Arc::clone(&iam), Arc::clone(&clock)),
            login_limiter: LoginRateLimiter::new(policy.login_limits, Arc::clone(&clock)),
            logouts: SingleFlight::default(),
            iam,
            keys,
            clock,
            random,
            policy,
        }
    }

    /// Refuses a login from an address that has no attempts left, for any account. Counts nothing,
    /// so that it can be asked before the body of a request is parsed.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogins`] with the limit and the time to wait.
    pub fn admit_login(&self, address: Option<ClientAddress>) -> Result<(), GatewayError> {
        self.login_limiter.admit(address)
    }

    /// Verifies credentials at the IAM within the login limits, and begins a session. Never
    /// retried, never cached.
    ///
    /// The result is [`GatewayError::Refused`] where the IAM refuses the credentials,
    /// [`GatewayError::TooManyLogins`] or [`GatewayError::NotReady`] where it is not asked,
    /// otherwise a fault.
    pub async fn log_in(&self, credentials: &Credentials, client: &ClientContext) -> LoginAttempt {
        let account = self.login_limiter.account(credentials.email());
        LoginAttempt {
            account,
            result: self.begin_session(account, credentials, client).await,
        }
    }

    async fn begin_session(
        &self,
        account: Account,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<NewSession, GatewayError> {
        let session_id = SessionId::generate(&*self.random)?;
        let asked_at = self.clock.now();
        if !self.revocations.has_room(asked_at) {
            return Err(NotReady::TooManyRevocations.into());
        }
        let call = self.iam.authenticate(credentials, client);
        let address = client.address;
        let limited = self
            .login_limiter
            .limit(account, credentials, address, call);
        let authenticated = limited.await?;
        let verified_at = self.clock.now().unix_seconds();
        let expires_at = self.expiry(&authenticated, asked_at);

        let upstream = &authenticated.session;
        let session_token = self
            .session_tokens
            .seal(session_id, upstream, asked_at, expires_at)
            .inspect_err(|_| self.abandon(upstream))?;
        let fingerprint = self
            .knowledge
            .fingerprint(&session_token, upstream.subject.as_str());
        let permissions = authenticated.permissions.map(Arc::new);
        self.knowledge.learn(&fingerprint, asked_at, permissions);
        Ok(NewSession {
            subject: authenticated.session.subject,
            session_id,
            session_token: session_token.into(),
            verified_at,
            expires_at,
        })
    }

    /// When a session expires, in seconds since 1970.
    fn expiry(&self, authenticated: &Authenticated, asked_at: Moment) -> u64 {
        let max_lifetime = self.policy.session_max_lifetime;
        let lifetime = authenticated
            .expires_in
            .map_or(max_lifetime, |promised| promised.min(max_lifetime));
        asked_at.unix_seconds() + lifetime.as_secs()
    }

    /// Ends a session at the IAM that no client will ever have. The client does not wait for it.
    fn abandon(&self, upstream: &UpstreamSession) {
        let (iam, upstream) = (Arc::clone(&self.iam), upstream.clone());
        abandoned::end_session(
            self.iam.name(),
            async move { iam.end_session(&upstream).await },
        );
    }

    /// Exchanges a session for an access token with those names of the scope that the user is
    /// permitted. `request_id` is for the log lines of a call to the IAM.
    ///
    /// # Errors
    ///
    /// [`GatewayError::InvalidSession`], [`GatewayError::NothingGranted`],
    /// [`GatewayError::NotReady`] after a start, or a fault.
    pub async fn exchange(
        &self,
        session_id: &str,
        session_token: &str,
        scope: Scope<'_>,
        request_id: &str,
    ) -> Result<Exchanged, GatewayError> {
        self.revocations.refuse_catching_up()?;
        let arrived = self.clock.now();
        let mut buffer = Zeroizing::default();
        let opened = self
            .session_tokens
            .open(session_id, session_token, &mut buffer)?;
        let session = &opened.session;
        let mut names = opened.names();
        // Before the expiry is checked, so that both refusals take the same time.
        let ended = self.revocations.refuse_ended(&mut names);
        if session.has_expired(arrived) {
            return Err(InvalidSession::Expired.into());
        }
        ended?;
        let fingerprint = self.knowledge.fingerprint(session_token, &session.sub);
        let fresh = self.knowledge.fresh(&fingerprint, arrived);
        let (permissions, source) = if let Some(permissions) = fresh {
            (permissions, Source::Hit)
        } else {
            let inquiry = Inquiry {
                fingerprint,
                if_over: opened.revocation(End::Inactive),
                upstream: session.upstream().ok_or(InvalidSession::Malformed)?,
            };
            // Cached exchanges log nothing here, and a span would cost them 1 %.
            let span = tracing::error_span!("request", request_id);
            let asked = self.knowledge.ask(inquiry, arrived).instrument(span);
            // Boxed, because otherwise the future of every exchange would have its size.
            Box::pin(asked).await?
        };
        // Again, because a logout that came during the introspection must win.
        self.revocations.refuse_ended(&mut names)?;
        let now = self.clock.now();
        if session.has_expired(now) {
            return Err(InvalidSession::Expired.into());
        }
        let granted = self.effective(scope).granted(&permissions);
        if granted.is_empty() && self.policy.refuse_empty_scope {
            return Err(GatewayError::NothingGranted);
        }
        let grant = Grant {
            subject: &session.sub,
            session_id,
            scope: &granted,
            session_expires_at: session.exp,
        };
        let token = access_token::issue(
            &self.keys.signing.key_set(),
            &self.policy.token,
            grant,
            now,
            &*self.random,
        )?;
        Ok(Exchanged {
            token,
            scope: granted,
            source,
        })
    }

    /// Ends a session: here first, then at the IAM, then at the other replicas. Access tokens that
    /// were issued stay valid.
    ///
    /// A session that has ended is a success, so that a client which lost the response can repeat
    /// the request. Where the IAM fails, the session is ended at every replica all the same.
    /// Logouts of one session that arrive during the call to the IAM share that call and its
    /// result, so that no client can use up the concurrent logouts with one session.
    ///
    /// # Errors
    ///
    /// [`GatewayError::InvalidSession`] where the pair does not open, otherwise a fault.
    pub async fn log_out(&self, session_id: &str, session_token: &str) -> Result<(), GatewayError> {
        let now = self.clock.now();
        let mut buffer = Zeroizing::default();
        let opened = self
            .session_tokens
            .open(session_id, session_token, &mut buffer)?;
        if opened.session.has_expired(now) {
            return Ok(());
        }
        let logged_out = opened.revocation(End::LoggedOut);
        let has_ended_upstream =
            || self.revocations.end_of(&mut opened.names()) == Some(End::Upstream);
        self.revocations.record(&logged_out, now);
        if has_ended_upstream() {
            // This replica may know it from the IAM, which did not send it to the others.
            self.session_ends.share(logged_out, now).await;
            return Ok(());
        }
        let upstream = opened.session.upstream();
        let upstream = upstream.ok_or(InvalidSession::Malformed)?;
        let admission = self.logouts.join_or_start(
            logged_out.name,
            now,
            // Also one that began long ago: a session that has ended stays so.
            |_| true,
            || has_ended_upstream().then_some(()),
            || {
                let confirmed = opened.revocation(End::Upstream);
                let (iam, ends) = (Arc::clone(&self.iam), Arc::clone(&self.session_ends));
                async move {
                    let ended = iam.end_session(&upstream).await;
                    if ended.is_ok() {
                        ends.revocations().record(&confirmed, now);
                    }
                    ends.share(logged_out, now).await;
                    ended
                }
            },
        );
        match admission {
            Admission::Done(()) => Ok(()),
            Admission::Joined(call) | Admission::Started(call) => Ok(call.result().await??),
        }
    }

    /// Ends the sessions that a logout token names (OpenID Connect Back-Channel Logout 1.0). It is a
    /// hint: IAMs send it once or not at all, so the guarantee is the freshness.
    ///
    /// Asks the IAM for its keys at most, and seldom. So an IAM may wait for the response while the
    /// gateway waits for the IAM.
    ///
    /// # Errors
    ///
    /// [`GatewayError::NoLogoutTokens`], [`GatewayError::InvalidLogoutToken`], or a fault. Nothing
    /// has ended then.
    pub async fn receive_logout_token(&self, token: &str) -> Result<Ended, GatewayError> {
        let tokens = self.logout_tokens.as_ref();
        let tokens = tokens.ok_or(GatewayError::NoLogoutTokens)?;
        let notice = tokens.verify(token).await?;
        self.session_ends
            .end_by_logout_token(&notice.ended, notice.issued_at);
        tokens.mark_used(&notice);
        Ok(notice.ended)
    }

    /// Every end at another replica is received from now on, after some may have been missed: what
    /// the IAM said before is not trusted any more.
    pub fn in_step_again(&self) {
        self.knowledge.distrust_until(self.clock.now());
        self.session_ends.serve_without_catching_up();
    }

    /// Resets the login limits of an account for unknown networks, and for the network of this
    /// address. Returns the account in the log.
    pub fn reset_login_limits(&self, email: &str, address: Option<ClientAddress>) -> Account {
        self.login_limiter.forget_failures(email, address)
    }

    /// How many login attempts were not counted, because a table was full.
    #[must_use]
    pub fn untracked_logins(&self) -> u64 {
        self.login_limiter.untracked()
    }

    /// The ends of sessions.
    #[must_use]
    pub fn session_ends(&self) -> &SessionEnds {
        &self.session_ends
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// What the operator decided.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The requested scope, or the default where none was requested. The default was parsed when
    /// the settings were read.
    fn effective<'a>(&'a self, requested: Scope<'a>) -> Scope<'a> {
        if requested.is_empty() {
            Scope::parse(&self.policy.default_scope).unwrap_or(Scope::EMPTY)
        } else {
            requested
        }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("iam", &self.iam)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
