//! The one decorator around any adapter: deadlines, bounds, circuit breakers, one retry, a span,
//! and an observer.

mod breaker;
mod lane;
mod window;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tracing::Instrument as _;

use crate::adapter::{Capabilities, IamAdapter};
use crate::clock::Clock;
use crate::error::IamError;
use crate::logout_token::VerificationKeys;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

use breaker::Breaker;
use lane::Lane;

/// What the gateway asks of an IAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// [`IamAdapter::authenticate`].
    Login,
    /// [`IamAdapter::introspect`].
    Introspection,
    /// [`IamAdapter::end_session`].
    Logout,
    /// [`IamAdapter::verification_keys`].
    Keys,
    /// [`IamAdapter::probe`].
    Probe,
}

impl Operation {
    /// Every operation there is.
    pub const ALL: [Self; 5] = [
        Self::Login,
        Self::Introspection,
        Self::Logout,
        Self::Keys,
        Self::Probe,
    ];

    /// The operation's name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Introspection => "introspection",
            Self::Logout => "logout",
            Self::Keys => "keys",
            Self::Probe => "probe",
        }
    }
}

/// Whether an operation is let through to the IAM.
///
/// It opens where at least half of at least 20 calls within 10 s failed: the IAM could not be
/// reached, did not answer in time, or said that it failed. A refusal, "inactive", a call for fewer
/// calls and what cannot be read are answers, and no failures. Some seconds later, or as soon as a
/// probe succeeds, up to three calls at a time are let through: the first success closes it, the
/// first failure opens it again. A probe has no circuit, and is always let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Circuit {
    /// Every call is let through.
    Closed,
    /// A few calls are let through, to find out.
    HalfOpen,
    /// No call is let through.
    Open,
}

impl Circuit {
    /// The state's name in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

/// How long one operation may take, and how many of it may be under way.
///
/// Each operation has its own bound, so that a flood of logins cannot starve introspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// From the first wait for a place to the last byte of the answer, retry included.
    pub deadline: Duration,
    /// Calls at the IAM at one time. More wait for a place, up to half of their deadline, and up
    /// to eight for each place.
    pub concurrency: usize,
}

/// The limit of each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of [`Operation::Login`].
    pub login: Limit,
    /// Of [`Operation::Introspection`].
    pub introspection: Limit,
    /// Of [`Operation::Logout`].
    pub logout: Limit,
    /// Of [`Operation::Keys`].
    pub keys: Limit,
    /// Of [`Operation::Probe`].
    pub probe: Limit,
}

impl Limits {
    /// The limit of one operation.
    #[must_use]
    pub const fn of(self, operation: Operation) -> Limit {
        match operation {
            Operation::Login => self.login,
            Operation::Introspection => self.introspection,
            Operation::Logout => self.logout,
            Operation::Keys => self.keys,
            Operation::Probe => self.probe,
        }
    }
}

/// Is told of every call to the IAM once it is over, and of every change of a circuit.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// One call ended so, after so long.
    fn called(&self, operation: Operation, result: Result<(), &IamError>, took: Duration);

    /// The circuit of an operation changed, to this.
    fn circuit(&self, operation: Operation, circuit: Circuit);
}

/// An adapter with a deadline and a circuit breaker for each operation, one retry of idempotent
/// calls where the IAM could not be reached, bounded concurrency, a span for each call, and an
/// observer.
#[derive(Debug)]
pub struct Guarded {
    adapter: Arc<dyn IamAdapter>,
    login: Lane,
    introspection: Lane,
    logout: Lane,
    keys: Lane,
    probe: Lane,
}

impl Guarded {
    /// Puts the guard around an adapter. The clock is that of the circuit breakers.
    #[must_use]
    pub fn new(
        adapter: Arc<dyn IamAdapter>,
        limits: Limits,
        clock: &Arc<dyn Clock>,
        observer: &Arc<dyn Observer>,
    ) -> Self {
        let lane = |operation| {
            // A probe is never refused: it is what finds out that the IAM is back, and comes from
            // one task that takes its time.
            let circuit = (operation != Operation::Probe)
                .then(|| Breaker::new(operation, Arc::clone(clock), Arc::clone(observer)));
            Lane::new(
                operation,
                limits.of(operation),
                circuit,
                Arc::clone(observer),
            )
        };
        Self {
            adapter,
            login: lane(Operation::Login),
            introspection: lane(Operation::Introspection),
            logout: lane(Operation::Logout),
            keys: lane(Operation::Keys),
            probe: lane(Operation::Probe),
        }
    }

    fn span(&self, operation: Operation) -> tracing::Span {
        tracing::debug_span!(
            "iam",
            iam.adapter = self.adapter.name(),
            iam.operation = operation.name(),
        )
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl IamAdapter for Guarded {
    fn name(&self) -> &'static str {
        self.adapter.name()
    }

    fn issuer(&self) -> &str {
        self.adapter.issuer()
    }

    fn capabilities(&self) -> Capabilities {
        self.adapter.capabilities()
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.login
            .call(|| self.adapter.authenticate(credentials, client))
            .instrument(self.span(Operation::Login))
            .await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.introspection
            .call(|| self.adapter.introspect(session))
            .instrument(self.span(Operation::Introspection))
            .await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.logout
            .call(|| self.adapter.end_session(session))
            .instrument(self.span(Operation::Logout))
            .await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.adapter.logout_audience()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.keys
            .call(|| self.adapter.verification_keys())
            .instrument(self.span(Operation::Keys))
            .await
    }

    async fn probe(&self) -> Result<(), IamError> {
        let result = self
            .probe
            .call(|| self.adapter.probe())
            .instrument(self.span(Operation::Probe))
            .await;
        if result.is_ok() {
            // Whoever waits for the IAM to come back need wait no longer.
            for lane in [&self.login, &self.introspection, &self.logout, &self.keys] {
                lane.circuit.as_ref().inspect(|circuit| circuit.try_again());
            }
        }
        result
    }
}

#[cfg(test)]
mod tests;
