//! The one decorator around any adapter: deadlines, bounds, one retry, a span, and an observer.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use crate::adapter::IamAdapter;
use crate::error::IamError;
use crate::logout_token::VerificationKeys;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

/// What the gateway asks of an IAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// How long one operation may take, and how many of it may be under way.
///
/// Each operation has its own bound, so that a flood of logins cannot starve introspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// From the first wait for a place to the last byte of the answer, retry included.
    pub deadline: Duration,
    /// Calls at the IAM at one time; more wait for a place within their deadline.
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

/// Is told of every call to the IAM once it is over.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// One call ended so, after so long.
    fn called(&self, operation: Operation, result: Result<(), &IamError>, took: Duration);
}

#[derive(Debug)]
struct Lane {
    operation: Operation,
    deadline: Duration,
    /// Further attempts after the IAM could not be reached. Never for a login: two wrong
    /// passwords in a row may lock the account.
    retries: u32,
    places: Semaphore,
}

impl Lane {
    fn new(operation: Operation, limit: Limit, retries: u32) -> Self {
        Self {
            operation,
            deadline: limit.deadline,
            retries,
            places: Semaphore::new(limit.concurrency),
        }
    }
}

/// An adapter with a deadline for each operation, one retry of idempotent calls where the IAM
/// could not be reached, bounded concurrency, a span for each call, and an observer.
#[derive(Debug)]
pub struct Guarded {
    adapter: Arc<dyn IamAdapter>,
    observer: Arc<dyn Observer>,
    login: Lane,
    introspection: Lane,
    logout: Lane,
    keys: Lane,
    probe: Lane,
}

impl Guarded {
    /// Puts the guard around an adapter.
    #[must_use]
    pub fn new(adapter: Arc<dyn IamAdapter>, limits: Limits, observer: Arc<dyn Observer>) -> Self {
        Self {
            adapter,
            observer,
            login: Lane::new(Operation::Login, limits.login, 0),
            introspection: Lane::new(Operation::Introspection, limits.introspection, 1),
            logout: Lane::new(Operation::Logout, limits.logout, 1),
            keys: Lane::new(Operation::Keys, limits.keys, 1),
            probe: Lane::new(Operation::Probe, limits.probe, 1),
        }
    }

    async fn call<T, F>(&self, lane: &Lane, mut attempt: impl FnMut() -> F) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let began = Instant::now();
        let deadline = began + lane.deadline;
        let result = match timeout_at(deadline, lane.places.acquire()).await {
            // A place that comes free at the very deadline is no time left to ask in.
            Ok(Ok(_place)) if Instant::now() < deadline => {
                let mut retries = lane.retries;
                loop {
                    match timeout_at(deadline, attempt()).await {
                        Ok(Err(IamError::Unreachable(_))) if retries > 0 => retries -= 1,
                        Ok(result) => break result,
                        Err(_) => break Err(IamError::TimedOut(lane.deadline)),
                    }
                }
            }
            Ok(_) | Err(_) => Err(IamError::Saturated),
        };
        self.observer
            .called(lane.operation, result.as_ref().map(|_| ()), began.elapsed());
        result
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

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.call(&self.login, || {
            self.adapter.authenticate(credentials, client)
        })
        .instrument(self.span(Operation::Login))
        .await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.call(&self.introspection, || self.adapter.introspect(session))
            .instrument(self.span(Operation::Introspection))
            .await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.call(&self.logout, || self.adapter.end_session(session))
            .instrument(self.span(Operation::Logout))
            .await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.adapter.logout_audience()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.call(&self.keys, || self.adapter.verification_keys())
            .instrument(self.span(Operation::Keys))
            .await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.call(&self.probe, || self.adapter.probe())
            .instrument(self.span(Operation::Probe))
            .await
    }
}

#[cfg(test)]
mod tests;
