//! A gateway with its IAM and its clock, and a verb for each operation.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use base64::Engine as _;
use iam_adapters::clock::ManualClock;
use iam_adapters::resilient::Operation;
use iam_adapters::{ClientContext, Clock as _, Credentials, IamAdapter, Permission, Scope};
use iam_adapters::{Introspection, Permissions, Subject};
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::scripted::{Reply, Scripted};
use crate::gateway::TokenPolicy;
use crate::gateway::error::GatewayError;
use crate::gateway::keys::{KeySet, Keys};
use crate::gateway::knowledge::Freshness;
use crate::gateway::login_limiter::{Bound, Limits, SlowPace};
use crate::gateway::revocations::{Revocations, Room};
use crate::gateway::session::SealingKey;
use crate::gateway::{BASE64, Exchanged, Gateway, GatewayParts, Policy};

/// The time at which every house begins, in seconds since 1970.
pub(super) const START: u64 = 1_800_000_000;

pub(super) const LIVENESS: Duration = Duration::from_secs(30);
pub(super) const PERMISSIONS: Duration = Duration::from_secs(60);
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// The last moment before this much time has gone by.
pub(super) fn just_before(duration: Duration) -> Duration {
    duration.saturating_sub(MOMENT)
}

/// For so long everything is fresh that may be so old.
pub(super) fn surely_fresh(freshness: Duration) -> Duration {
    freshness * 9 / 10
}

/// After so long more, nothing is.
pub(super) fn the_rest(freshness: Duration) -> Duration {
    freshness.saturating_sub(surely_fresh(freshness))
}

/// A session as its client holds it.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) token: String,
    pub(super) verified_at: u64,
    pub(super) expires_at: u64,
}

#[derive(Clone)]
pub(super) struct House {
    pub(super) iam: Arc<Scripted>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) gateway: Arc<Gateway>,
}

pub(super) fn policy() -> Policy {
    Policy {
        freshness: Freshness {
            liveness: LIVENESS,
            permissions: PERMISSIONS,
            stale_if_error: Duration::ZERO,
            max_bytes: 16 * 1024 * 1024,
        },
        login_limits: Limits {
            account: Bound {
                most: 10,
                window: Duration::from_secs(300),
            },
            account_slow: SlowPace {
                after: 50,
                interval: Duration::from_secs(900),
            },
            account_sessions: Bound {
                most: 0,
                window: Duration::from_secs(60),
            },
            address: Bound {
                most: 100,
                window: Duration::from_secs(900),
            },
            replica: None,
        },
        session_max_lifetime: Duration::from_secs(86_400),
        token: TokenPolicy {
            issuer: "https://auth.test".to_owned(),
            audience: vec!["https://api.test".to_owned()],
            client_id: "auth-gateway".to_owned(),
            lifetime: Duration::from_secs(3_600),
        },
        default_scope: String::new(),
        refuse_empty_scope: false,
    }
}

impl House {
    /// Alice may `read` and `write`, Bob may `read`.
    pub(super) fn new() -> Self {
        Self::with(Scripted::default(), policy())
    }

    pub(super) fn with(iam: Scripted, policy: Policy) -> Self {
        Self::through(iam, policy, |iam, _| iam)
    }

    /// A house that sees its IAM through something else.
    pub(super) fn through(
        iam: Scripted,
        policy: Policy,
        seen: impl FnOnce(Arc<Scripted>, Arc<ManualClock>) -> Arc<dyn IamAdapter>,
    ) -> Self {
        iam.permit("alice", "read write");
        iam.permit("bob", "read");
        let iam = Arc::new(iam);
        let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
        let seen = seen(iam.clone(), clock.clone());
        Self::before_this(iam, seen, clock, policy)
    }

    fn at(iam: Arc<Scripted>, clock: Arc<ManualClock>, policy: Policy) -> Self {
        Self::before_this(iam.clone(), iam, clock, policy)
    }

    fn before_this(
        iam: Arc<Scripted>,
        seen: Arc<dyn IamAdapter>,
        clock: Arc<ManualClock>,
        policy: Policy,
    ) -> Self {
        let secret: Vec<u8> = (0..32).collect();
        let sealing = SealingKey::new(&secret, "shared", Timestamp::UNIX_EPOCH).unwrap();
        let mut keys = Keys::ephemeral(clock.now()).unwrap();
        keys.sealing = KeySet::new(vec![sealing]).unwrap().into();
        let gateway = Gateway::new(GatewayParts {
            iam: seen,
            keys: Arc::new(keys),
            clock: clock.clone(),
            random: Arc::new(SystemRandom::new()),
            policy,
            revocations: Revocations::default(),
        });
        Self {
            iam,
            clock,
            gateway: Arc::new(gateway),
        }
    }

    /// Another replica, whose table of revocations has this much room.
    pub(super) fn replica_with_room(&self, room: Room) -> Self {
        let (iam, clock) = (self.iam.clone(), self.clock.clone());
        let gateway = Gateway::new(GatewayParts {
            iam: iam.clone(),
            keys: Arc::clone(&self.gateway.keys),
            clock: clock.clone(),
            random: Arc::new(SystemRandom::new()),
            policy: self.gateway.policy().clone(),
            revocations: Revocations::with_room(room),
        });
        Self {
            iam,
            clock,
            gateway: Arc::new(gateway),
        }
    }

    /// Another replica: the same IAM, clock and sealing key, and nothing else in common.
    pub(super) fn replica(&self) -> Self {
        Self::at(
            self.iam.clone(),
            self.clock.clone(),
            self.gateway.policy().clone(),
        )
    }

    /// The same clock and sealing key before another IAM.
    pub(super) fn before(&self, iam: Scripted) -> Self {
        Self::at(
            Arc::new(iam),
            self.clock.clone(),
            self.gateway.policy().clone(),
        )
    }

    pub(super) async fn try_log_in(
        &self,
        email: &str,
        password: &str,
    ) -> Result<Session, GatewayError> {
        let credentials = Credentials::new(email.to_owned(), password.into()).unwrap();
        let client = ClientContext::default();
        let session = self.gateway.log_in(&credentials, &client).await.result?;
        Ok(Session {
            id: session.session_id.to_string(),
            token: session.session_token.expose_secret().to_owned(),
            verified_at: session.verified_at,
            expires_at: session.expires_at,
        })
    }

    pub(super) async fn log_in(&self, subject: &str) -> Session {
        let email = format!("{subject}@example.test");
        self.try_log_in(&email, "right").await.unwrap()
    }

    pub(super) async fn exchange(
        &self,
        session: &Session,
        scope: &str,
    ) -> Result<Exchanged, GatewayError> {
        let scope = Scope::parse(scope).unwrap();
        self.gateway
            .exchange(&session.id, &session.token, scope, "request-1")
            .await
    }

    /// What is granted.
    pub(super) async fn granted(&self, session: &Session) -> Result<String, GatewayError> {
        Ok(self.exchange(session, "read write").await?.scope)
    }

    /// An exchange that goes on by itself.
    pub(super) fn begin_exchange(
        &self,
        session: &Session,
    ) -> JoinHandle<Result<Exchanged, GatewayError>> {
        let (house, session) = (self.clone(), session.clone());
        tokio::spawn(async move { house.exchange(&session, "read write").await })
    }

    pub(super) async fn log_out(&self, session: &Session) -> Result<(), GatewayError> {
        self.gateway.log_out(&session.id, &session.token).await
    }

    /// Sets the wall clock back, as an operator does.
    pub(super) fn set_back(&self, by: Duration) {
        let unix = self.gateway.now().unix;
        self.clock.set_wall(unix.saturating_sub(by));
    }

    pub(super) fn introspections(&self) -> usize {
        self.iam.calls(Operation::Introspection)
    }
}

/// The claims of a token, unverified.
pub(super) fn claims(exchanged: &Exchanged) -> Value {
    let payload = exchanged.token.expose().split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64.decode(payload).unwrap()).unwrap()
}

/// The IAM's word that the session is alive and its user may do this.
pub(super) fn active(subject: &str, names: &str) -> Reply {
    let permissions: Permissions = names
        .split_whitespace()
        .map(|name| Permission::parse(name).unwrap())
        .collect();
    Reply::Say(Introspection::Active {
        subject: Subject::new(subject).unwrap(),
        permissions,
    })
}
