//! A gateway with a scripted IAM and a manual clock.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::resilient::Operation;
use iam_adapters::{
    Claims, Clock, Credentials, IamAdapter, Introspection, Permission, Permissions, Scope, Subject,
};
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use test_support::ManualClock;
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use super::recorded::Recorded;
use crate::error::GatewayError;
use crate::iams::{Iam, IamParts, IamPolicy};
use crate::introspection_cache::{Fingerprint, Freshness};
use crate::keys::{KeySet, SealingKey};
use crate::login_limiter::{Bound, Limits, SlowRate};
use crate::replica_state::{ReplicaState, Replicas};
use crate::request::RequestContext;
use crate::revocations::Revocation;
use crate::{Exchanged, Gateway, Keys, Policy, TokenPolicy, TokenType};
use test_support::scripted_iam::{Call, HeldCalls, Reply, ScriptedIam};

/// The initial time of the clock, in seconds since 1970.
pub(crate) const START: u64 = 1_800_000_000;

pub(crate) const LIVENESS: Duration = Duration::from_secs(30);
pub(crate) const PERMISSIONS: Duration = Duration::from_secs(60);
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// A millisecond less than the duration.
pub(crate) fn just_before(duration: Duration) -> Duration {
    duration.saturating_sub(MILLISECOND)
}

/// The part of a freshness in which no data is refreshed.
pub(crate) fn without_refresh(freshness: Duration) -> Duration {
    freshness * 9 / 10
}

/// The rest of a freshness, in which data is refreshed.
pub(crate) fn refresh_period(freshness: Duration) -> Duration {
    freshness.saturating_sub(without_refresh(freshness))
}

/// A session of a client.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) verified_at: u64,
    pub(crate) expires_at: u64,
}

#[derive(Clone)]
pub(crate) struct TestGateway {
    pub(crate) iam: Arc<ScriptedIam>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) inner: Arc<Gateway>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) events: Arc<Recorded>,
}

/// The settings of a gateway with one IAM.
#[derive(Clone)]
pub(crate) struct Policies {
    pub(crate) gateway: Policy,
    pub(crate) iam: IamPolicy,
}

/// The defaults of the settings, except for the claims of tokens.
pub(crate) fn policy() -> Policies {
    Policies {
        gateway: Policy {
            cache_bytes: 16 * 1024 * 1024,
            login_limits: login_limits(),
            token: TokenPolicy {
                issuer: "https://auth.test".to_owned(),
                audience: vec!["https://api.test".to_owned()],
                client_id: "auth-gateway".to_owned(),
                lifetime: Duration::from_secs(3_600),
                audiences: Vec::new(),
                token_type: TokenType::AtJwt,
            },
            default_scope: String::new(),
            refuse_empty_scope: false,
        },
        iam: IamPolicy {
            domains: Vec::new(),
            is_default: true,
            allows_logins: true,
            subject_prefix: String::new(),
            allowed_scopes: None,
            freshness: Freshness {
                liveness: LIVENESS,
                permissions: PERMISSIONS,
                stale_if_error: Duration::ZERO,
            },
            session_max_lifetime: Duration::from_secs(24 * 3_600),
            logins_per_second: None,
            claims: iam_adapters::ClaimSources::NONE,
        },
    }
}

/// The defaults of the settings, with an IAM that does not limit sessions.
pub(crate) const fn login_limits() -> Limits {
    Limits {
        account: Bound {
            most: 10,
            window: Duration::from_secs(5 * 60),
        },
        account_slow: SlowRate {
            after: 50,
            interval: Duration::from_secs(15 * 60),
        },
        account_sessions: Bound {
            most: 0,
            window: Duration::from_secs(60),
        },
        address: Bound {
            most: 100,
            window: Duration::from_secs(15 * 60),
        },
    }
}

/// An IAM whose name in the configuration is that of its adapter.
pub(crate) fn iam_parts(adapter: Arc<dyn IamAdapter>, policy: IamPolicy) -> IamParts {
    IamParts {
        name: adapter.name().into(),
        adapter,
        policy,
    }
}

/// The state of a replica, with the random numbers of the system.
pub(crate) fn replica_state(
    clock: &Arc<ManualClock>,
    keys: Arc<Keys>,
    limits: Limits,
    events: &Arc<Recorded>,
    sharing: Replicas,
) -> ReplicaState {
    let time: Arc<dyn Clock> = clock.clone();
    let random = Arc::new(SystemRandom::new());
    ReplicaState::new(time, random, keys, events.subscribed(), limits, sharing)
}

impl TestGateway {
    /// Alice has the permissions `read` and `write`, Bob has `read`.
    pub(crate) fn new() -> Self {
        Self::with(ScriptedIam::default(), policy())
    }

    /// The same, with a session of Alice and fresh cached data.
    pub(crate) async fn with_session() -> (Self, Session) {
        let gateway = Self::new();
        let session = gateway.log_in("alice").await;
        (gateway, session)
    }

    /// The same after [`LIVENESS`]: the next exchange introspects.
    pub(crate) async fn with_stale_session() -> (Self, Session) {
        let (gateway, session) = Self::with_session().await;
        gateway.clock.advance(LIVENESS);
        (gateway, session)
    }

    pub(crate) fn with(iam: ScriptedIam, policy: Policies) -> Self {
        Self::with_adapter(iam, policy, |iam, _| iam)
    }

    /// A gateway whose adapter wraps the scripted IAM.
    pub(crate) fn with_adapter(
        iam: ScriptedIam,
        policy: Policies,
        wrap: impl FnOnce(Arc<ScriptedIam>, Arc<ManualClock>) -> Arc<dyn IamAdapter>,
    ) -> Self {
        iam.permit("alice", "read write");
        iam.permit("bob", "read");
        let iam = Arc::new(iam);
        let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
        let adapter = wrap(iam.clone(), clock.clone());
        Self::from_parts(iam, adapter, clock, policy)
    }

    fn with_clock(iam: Arc<ScriptedIam>, clock: Arc<ManualClock>, policy: Policies) -> Self {
        Self::from_parts(iam.clone(), iam, clock, policy)
    }

    fn from_parts(
        iam: Arc<ScriptedIam>,
        adapter: Arc<dyn IamAdapter>,
        clock: Arc<ManualClock>,
        policy: Policies,
    ) -> Self {
        let parts = vec![iam_parts(adapter, policy.iam)];
        Self::from_iams(iam, parts, clock, policy.gateway)
    }

    /// A gateway with several IAMs. `iam` is one of them.
    pub(crate) fn with_iams(iam: Arc<ScriptedIam>, iams: Vec<IamParts>) -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
        Self::from_iams(iam, iams, clock, policy().gateway)
    }

    fn from_iams(
        iam: Arc<ScriptedIam>,
        iams: Vec<IamParts>,
        clock: Arc<ManualClock>,
        policy: Policy,
    ) -> Self {
        let secret: Vec<u8> = (0..32).collect();
        let sealing = SealingKey::new(&secret, "shared", Timestamp::UNIX_EPOCH).unwrap();
        let mut keys = Keys::ephemeral(clock.now()).unwrap();
        keys.sealing = KeySet::new(vec![sealing]).unwrap().into();
        Self::with_keys(iam, iams, clock, Arc::new(keys), policy)
    }

    /// A gateway without other replicas.
    pub(crate) fn with_keys(
        iam: Arc<ScriptedIam>,
        iams: Vec<IamParts>,
        clock: Arc<ManualClock>,
        keys: Arc<Keys>,
        policy: Policy,
    ) -> Self {
        let events = Arc::<Recorded>::default();
        let replicas = Replicas::default();
        let replica = replica_state(&clock, keys, policy.login_limits, &events, replicas);
        Self {
            keys: Arc::clone(&replica.keys),
            inner: Arc::new(Gateway::new(iams, policy, replica)),
            iam,
            clock,
            events,
        }
    }

    /// This gateway, started again as one of several replicas, without what it has recorded or cached.
    pub(crate) fn sharing(&self, sharing: Replicas) -> Self {
        self.started_again(sharing, |_| ())
    }

    /// This gateway, started again with another state.
    pub(crate) fn started_again(
        &self,
        sharing: Replicas,
        change: impl FnOnce(&mut ReplicaState),
    ) -> Self {
        let Policies { gateway, iam } = self.policy();
        let iams = vec![iam_parts(self.iam().adapter.clone(), iam)];
        let events = Arc::<Recorded>::default();
        let (keys, limits) = (Arc::clone(&self.keys), gateway.login_limits);
        let mut replica = replica_state(&self.clock, keys, limits, &events, sharing);
        change(&mut replica);
        Self {
            inner: Arc::new(Gateway::new(iams, gateway, replica)),
            events,
            ..self.clone()
        }
    }

    /// Learns a revocation of another replica.
    pub(crate) fn apply_remote(&self, revocation: &Revocation) -> bool {
        let revocations = &self.inner.replica.revocations;
        revocations.apply_remote(revocation, self.inner.replica.clock.now())
    }

    /// Has all revocations of the other replicas again.
    pub(crate) fn initial_sync_done(&self) {
        self.inner
            .replica
            .revocations
            .initial_sync_done(self.inner.replica.clock.now());
    }

    /// Another replica: shares only the IAM, the clock and the sealing key.
    pub(crate) fn replica(&self) -> Self {
        self.replica_by(self.clock.clone())
    }

    /// Another replica with a clock of its own.
    pub(crate) fn replica_by(&self, clock: Arc<ManualClock>) -> Self {
        Self::with_clock(self.iam.clone(), clock, self.policy())
    }

    /// A gateway with the same IAM, clock and sealing key, and other settings.
    pub(crate) fn with_policy(&self, policy: Policies) -> Self {
        Self::with_clock(self.iam.clone(), self.clock.clone(), policy)
    }

    /// A gateway with the same clock and sealing key, and another IAM.
    pub(crate) fn with_other_iam(&self, iam: ScriptedIam) -> Self {
        Self::with_clock(Arc::new(iam), self.clock.clone(), self.policy())
    }

    pub(crate) fn policy(&self) -> Policies {
        Policies {
            gateway: self.inner.policy.clone(),
            iam: self.iam().policy.clone(),
        }
    }

    /// The IAM in the gateway.
    pub(crate) fn iam(&self) -> &Iam {
        self.inner.iams.iter().next().unwrap()
    }

    /// The keys of a session in the caches.
    pub(crate) fn fingerprint(&self, session: &Session) -> Fingerprint {
        let tokens = &self.inner.session_tokens;
        let mut buffer = Zeroizing::default();
        let opened = tokens.open(&session.id, &session.token, &mut buffer);
        let opened = opened.expect("a pair of this gateway");
        let cache = &opened.iam.introspection_cache;
        let key = cache.session_key(opened.id, opened.content);
        cache.fingerprint(key, &session.token, &opened.session.sub)
    }

    /// The IAM reports the end of a session.
    pub(crate) fn end_upstream_session(&self, id: &str) {
        let ends = &self.inner.session_revoker;
        ends.end_upstream_session(self.iam(), id);
    }

    /// The IAM reports the end of all sessions of a subject that began in this second or before.
    pub(crate) fn end_sessions_of(&self, subject: &str, begun_until: u64) {
        let ends = &self.inner.session_revoker;
        ends.end_sessions_of(self.iam(), subject, begun_until * 1_000 + 999);
    }

    pub(crate) async fn try_log_in(
        &self,
        email: &str,
        password: &str,
    ) -> Result<Session, GatewayError> {
        let credentials = Credentials::new(email.to_owned(), password.into()).unwrap();
        let request = RequestContext::default();
        let session = self.inner.log_in(&request, &credentials).await?;
        Ok(Session {
            id: session.session_id.to_string(),
            token: session.session_token.expose_secret().to_owned(),
            verified_at: session.verified_at,
            expires_at: session.expires_at,
        })
    }

    pub(crate) async fn log_in(&self, subject: &str) -> Session {
        let email = format!("{subject}@example.test");
        self.try_log_in(&email, "right").await.unwrap()
    }

    /// A login of Alice, and its call to the IAM, which has no response yet.
    pub(crate) async fn login_in_flight(&self) -> (JoinHandle<Session>, Call) {
        let mut calls = self.iam.hold(Operation::Login);
        let gateway = self.clone();
        let login = tokio::spawn(async move { gateway.log_in("alice").await });
        let call = calls.next().await;
        self.iam.release(Operation::Login);
        (login, call)
    }

    pub(crate) async fn exchange(
        &self,
        session: &Session,
        scope: &str,
    ) -> Result<Exchanged, GatewayError> {
        let scope = Scope::parse(scope).unwrap();
        let request = RequestContext::default();
        self.inner
            .exchange(&request, &session.id, &session.token, scope)
            .await
    }

    /// The granted scope of an exchange.
    pub(crate) async fn granted(&self, session: &Session) -> Result<String, GatewayError> {
        Ok(self.exchange(session, "read write").await?.scope)
    }

    /// An exchange in its own task.
    pub(crate) fn spawn_exchange(
        &self,
        session: &Session,
    ) -> JoinHandle<Result<Exchanged, GatewayError>> {
        let (gateway, session) = (self.clone(), session.clone());
        tokio::spawn(async move { gateway.exchange(&session, "read write").await })
    }

    /// An exchange in its own task, and its introspection, which is one of the held calls.
    pub(crate) async fn exchange_in_flight(
        &self,
        session: &Session,
        calls: &mut HeldCalls,
    ) -> (JoinHandle<Result<Exchanged, GatewayError>>, Call) {
        let exchange = self.spawn_exchange(session);
        (exchange, calls.next().await)
    }

    pub(crate) async fn log_out(&self, session: &Session) -> Result<(), GatewayError> {
        let request = RequestContext::default();
        let ended = self.inner.log_out(&request, &session.id, &session.token);
        ended.await
    }

    /// Sets the wall clock back, as an operator does.
    pub(crate) fn set_wall_clock_back(&self, by: Duration) {
        let unix = self.inner.replica.clock.now().unix;
        self.clock.set_wall(unix.saturating_sub(by));
    }

    pub(crate) fn introspections(&self) -> usize {
        self.iam.calls(Operation::Introspection)
    }
}

/// The claims of a token, unverified.
pub(crate) fn claims(exchanged: &Exchanged) -> Value {
    let payload = exchanged.token.expose().split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// An active session with these permissions.
pub(crate) fn active(subject: &str, names: &str) -> Reply {
    with_claims(subject, names, Claims::NONE)
}

/// An active session with these permissions and claims.
pub(crate) fn with_claims(subject: &str, names: &str, claims: Claims) -> Reply {
    let permissions: Permissions = names
        .split_whitespace()
        .map(|name| Permission::parse(name).unwrap())
        .collect();
    Reply::Introspection(Introspection::Active {
        subject: Subject::new(subject).unwrap(),
        permissions,
        groups: None,
        claims,
    })
}
