//! The three operations: log in, exchange, log out. Nothing here knows HTTP or any one IAM.

mod constant_time_fallback;
mod ending;
pub mod error;
pub mod keys;
pub mod knowledge;
pub mod login_limiter;
mod logout_token;
pub mod mint;
mod opening;
pub mod policy;
pub mod random;
pub mod replicas;
pub mod revocations;
pub mod seal;
pub mod session;
mod single_flight;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, OnceLock};

use base64::engine::general_purpose::NO_PAD;
use base64::engine::simd::Simd;
use iam_adapters::{
    ClientContext, Clock, Credentials, IamAdapter, IamError, LogoutTokens, Moment, Scope,
};
use tracing::Instrument as _;
use zeroize::Zeroizing;

pub use mint::Exchanged;
pub use policy::Policy;
pub use session::NewSession;

use constant_time_fallback::ConstantTimeFallback;
use error::{GatewayError, InvalidSession, NotReady};
use keys::Keys;
use knowledge::{Inquiry, Knowledge, Source};
use login_limiter::LoginRateLimiter;
use mint::Grant;
use random::Random;
use replicas::Replicas;
use revocations::{End, Name, Revocations};
use session::SessionId;
use single_flight::{Admission, SingleFlight};

/// base64url without padding (RFC 7515 section 2), refusing everything that is not canonical.
static BASE64: LazyLock<Simd> = LazyLock::new(|| Simd::url_safe(NO_PAD));

/// The gateway: one IAM, one set of keys, what it knows and what it revoked.
pub struct Gateway {
    iam: Arc<dyn IamAdapter>,
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    policy: Policy,
    constant_time_fallback: ConstantTimeFallback,
    knowledge: Arc<Knowledge>,
    revocations: Arc<Revocations>,
    replicas: OnceLock<Arc<dyn Replicas>>,
    /// Whether what ended at the other replicas before this one started is still unknown.
    catching_up: AtomicBool,
    /// None: the IAM sends none.
    logout_tokens: Option<LogoutTokens>,
    login_limiter: LoginRateLimiter,
    /// The logouts that the IAM is being told of, by the name of the session's end.
    logouts: SingleFlight<Name, Result<(), IamError>>,
}

impl Gateway {
    /// Puts a gateway in front of an IAM, which shall be guarded already.
    pub fn new(
        iam: Arc<dyn IamAdapter>,
        keys: Arc<Keys>,
        policy: Policy,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self::with(Revocations::default(), iam, keys, policy, clock, random)
    }

    fn with(
        revocations: Revocations,
        iam: Arc<dyn IamAdapter>,
        keys: Arc<Keys>,
        policy: Policy,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let revocations = Arc::new(revocations);
        let knowledge = Knowledge::new(
            Arc::clone(&iam),
            Arc::clone(&clock),
            Arc::clone(&revocations),
            policy.freshness,
        );
        let login_limiter = LoginRateLimiter::new(policy.login_limits, Arc::clone(&clock));
        Self {
            constant_time_fallback: ConstantTimeFallback::of(&*iam),
            logout_tokens: LogoutTokens::of(Arc::clone(&iam), Arc::clone(&clock)),
            iam,
            keys,
            clock,
            random,
            policy,
            knowledge: Arc::new(knowledge),
            revocations,
            replicas: OnceLock::new(),
            catching_up: AtomicBool::new(false),
            login_limiter,
            logouts: SingleFlight::default(),
        }
    }

    /// Verifies credentials at the IAM and begins a session. Never retried, never cached.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Refused`] where the IAM says no, [`GatewayError::TooManyLogins`] or
    /// [`GatewayError::NotReady`] where it is not asked, otherwise a fault.
    pub async fn log_in(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<NewSession, GatewayError> {
        let session_id = SessionId::generate(&*self.random)?;
        let asked_at = self.clock.now();
        if !self.revocations.has_room(asked_at) {
            return Err(NotReady::TooManyRevocations.into());
        }
        let ask = self.iam.authenticate(credentials, client);
        let limited = self.login_limiter.limit(credentials, client.address, ask);
        let authenticated = limited.await?;
        let verified_at = self.clock.now().unix_seconds();
        let max_lifetime = self.policy.session_max_lifetime;
        let lifetime = authenticated
            .expires_in
            .map_or(max_lifetime, |promised| promised.min(max_lifetime));
        let expires_at = asked_at.unix_seconds() + lifetime.as_secs();

        let upstream = &authenticated.session;
        let sealed = self.seal(session_id, upstream, asked_at, expires_at);
        let session_token = sealed.inspect_err(|_| session::abandon(&self.iam, upstream))?;
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

    /// Exchanges a session for an access token with those of the scope's names that the user may
    /// hold. The id is that of the request, for the log lines of a call to the IAM.
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
        self.caught_up()?;
        let arrived = self.clock.now();
        let mut buffer = Zeroizing::default();
        let opened = self.open(session_id, session_token, &mut buffer)?;
        let session = &opened.session;
        let mut names = opened.names();
        // Looked for before the time is looked at, so that both refusals take equally long.
        let ended = self.refuse_ended(&mut names);
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
            // Not around every exchange: cached ones log nothing here, and a span costs them 1 %.
            let span = tracing::error_span!("request", request_id);
            let asked = self.knowledge.ask(inquiry, arrived).instrument(span);
            // Boxed, because the future of every exchange would carry its size around.
            Box::pin(asked).await?
        };
        // A logout that came while the IAM was asked must win, so this look comes after the answer.
        self.refuse_ended(&mut names)?;
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
        let token = mint::mint(
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

    /// Ends a session: here first, then at the IAM, then at the other replicas. Access tokens already
    /// issued stay valid.
    ///
    /// A session that has ended already is a success, so that an answer which was lost can be
    /// asked for again. Where the IAM fails, the session is over at every replica all the same.
    /// Logouts of one session that arrive while the IAM is being told of it share that one call and
    /// its answer, so that no client can occupy the logout concurrency with one session.
    ///
    /// # Errors
    ///
    /// [`GatewayError::InvalidSession`] where the pair does not open, otherwise a fault.
    pub async fn log_out(&self, session_id: &str, session_token: &str) -> Result<(), GatewayError> {
        let now = self.clock.now();
        let mut buffer = Zeroizing::default();
        let opened = self.open(session_id, session_token, &mut buffer)?;
        if opened.session.has_expired(now) {
            return Ok(());
        }
        let logged_out = opened.revocation(End::LoggedOut);
        self.revocations.record(&logged_out, now);
        if self.revocations.end_of(&mut opened.names()) == Some(End::Upstream) {
            // This replica may have it from the IAM, which told no other.
            self.sharer().share(logged_out, now).await;
            return Ok(());
        }
        let upstream = opened.session.upstream();
        let upstream = upstream.ok_or(InvalidSession::Malformed)?;
        let admission = self.logouts.join_or_start(
            logged_out.name,
            now,
            // Whenever it began: what it ends stays ended.
            |_| true,
            || (self.revocations.end_of(&mut opened.names()) == Some(End::Upstream)).then_some(()),
            || {
                let over = opened.revocation(End::Upstream);
                let (iam, revocations) = (Arc::clone(&self.iam), Arc::clone(&self.revocations));
                let sharer = self.sharer();
                async move {
                    let ended = iam.end_session(&upstream).await;
                    if ended.is_ok() {
                        revocations.record(&over, now);
                    }
                    sharer.share(logged_out, now).await;
                    ended
                }
            },
        );
        match admission {
            Admission::Done(()) => Ok(()),
            Admission::Joined(flight) | Admission::Started(flight) => Ok(flight.result().await??),
        }
    }

    /// The keys, for what is published of them.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// What an operator decided.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The time, as the gateway sees it.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The scope asked for, or the default where none was. The default was parsed when the
    /// configuration was read.
    fn effective<'a>(&'a self, asked: Scope<'a>) -> Scope<'a> {
        if asked.is_empty() {
            Scope::parse(&self.policy.default_scope).unwrap_or(Scope::EMPTY)
        } else {
            asked
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
