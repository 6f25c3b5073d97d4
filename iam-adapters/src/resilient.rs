//! The decorator around every adapter: deadlines, bounded concurrency, circuit breakers, one retry,
//! a span, and an observer.

mod circuit_breaker;

use std::fmt;
use std::future::poll_fn;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanBuilder;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use crate::adapter::{Capabilities, IamAdapter};
use crate::client::CLOCK_OBSERVER;
use crate::clock::Clock;
use crate::error::IamError;
use crate::jwk::VerificationKeys;
use crate::permission_source::PermissionSource;
use crate::replaceable::Replaceable;
use crate::scope::Permissions;
use crate::trace::{self, ChildSpan};
use crate::types::{
    Authenticated, ClientContext, Credentials, Introspection, Subject, UpstreamSession,
};

pub use circuit_breaker::{Circuit, CircuitBreaker, Permit, Requester};

/// A call of the gateway to an IAM.
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
    /// [`PermissionSource::permissions`]. Not a call to the IAM, so no fault of an IAM can name it.
    #[serde(skip)]
    Permissions,
}

impl Operation {
    /// The calls to an IAM.
    pub const OF_IAM: [Self; 5] = [
        Self::Login,
        Self::Introspection,
        Self::Logout,
        Self::Keys,
        Self::Probe,
    ];

    /// Every operation.
    pub const ALL: [Self; 6] = [
        Self::Login,
        Self::Introspection,
        Self::Logout,
        Self::Keys,
        Self::Probe,
        Self::Permissions,
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
            Self::Permissions => "permissions",
        }
    }
}

/// The deadline and the concurrency limit of one operation.
///
/// Each operation has its own, so that a flood of logins cannot starve introspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// From the start of the wait for a permit to the last byte of the response, retry included.
    pub deadline: Duration,
    /// The maximum number of concurrent calls. Further calls wait for a permit: at most eight for
    /// each permit, and each for at most half of its deadline.
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
    /// The limit of one operation; `None` for [`Operation::Permissions`], whose source has one.
    #[must_use]
    pub const fn of(self, operation: Operation) -> Option<Limit> {
        match operation {
            Operation::Login => Some(self.login),
            Operation::Introspection => Some(self.introspection),
            Operation::Logout => Some(self.logout),
            Operation::Keys => Some(self.keys),
            Operation::Probe => Some(self.probe),
            Operation::Permissions => None,
        }
    }
}

/// Receives the result of every call to the IAM, and every change of a circuit.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// One call has ended with `result` after `took`.
    fn called(&self, operation: Operation, result: Result<(), &IamError>, took: Duration);

    /// The circuit of an operation has changed to `circuit`.
    fn circuit(&self, operation: Operation, circuit: Circuit);

    /// The IAM's clock has this [`offset`](crate::clock::offset) in a response to a probe.
    fn clock(&self, offset: f64);
}

/// An adapter with a deadline, a concurrency limit and a circuit breaker for each operation, and one
/// retry of idempotent calls if the IAM could not be reached.
///
/// If the permissions come from another source than the IAM, that source is called after the IAM,
/// within limits of its own.
#[derive(Debug)]
pub struct ResilientAdapter {
    /// The IAM's name in the configuration, for the log.
    name: Arc<str>,
    adapter: Replaceable<dyn IamAdapter>,
    // These do not change when the adapter is replaced.
    kind: &'static str,
    issuer: Box<str>,
    logout_audience: Option<Box<str>>,
    capabilities: Capabilities,
    /// `None`: the permissions are those at the IAM.
    permission_source: Option<(Replaceable<PermissionSource>, OperationGuard)>,
    login: OperationGuard,
    introspection: OperationGuard,
    logout: OperationGuard,
    keys: OperationGuard,
    probe: OperationGuard,
}

impl ResilientAdapter {
    /// Wraps an adapter. The circuit breakers use the clock.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        adapter: Arc<dyn IamAdapter>,
        limits: Limits,
        clock: &Arc<dyn Clock>,
        observer: &Arc<dyn Observer>,
    ) -> Self {
        let guard = |operation, limit| OperationGuard::new(operation, limit, clock, observer);
        Self {
            name,
            kind: adapter.name(),
            issuer: adapter.issuer().into(),
            logout_audience: adapter.logout_audience().map(Into::into),
            capabilities: adapter.capabilities(),
            adapter: Replaceable::new(adapter),
            permission_source: None,
            login: guard(Operation::Login, limits.login),
            introspection: guard(Operation::Introspection, limits.introspection),
            logout: guard(Operation::Logout, limits.logout),
            keys: guard(Operation::Keys, limits.keys),
            probe: guard(Operation::Probe, limits.probe),
        }
    }

    /// Takes the permissions from another source than the IAM.
    #[must_use]
    pub fn with_permissions_from(
        mut self,
        source: Arc<PermissionSource>,
        clock: &Arc<dyn Clock>,
        observer: &Arc<dyn Observer>,
    ) -> Self {
        let guard = OperationGuard::new(Operation::Permissions, source.limit(), clock, observer);
        self.permission_source = Some((Replaceable::new(source), guard));
        self
    }

    /// Replaces the adapter and the source of permissions by ones with the same settings and other
    /// secrets or certificates. Calls in progress end with the previous ones.
    pub fn replace(
        &self,
        adapter: Arc<dyn IamAdapter>,
        permission_source: Option<Arc<PermissionSource>>,
    ) {
        self.adapter.replace(adapter);
        if let (Some((current, _)), Some(new)) = (&self.permission_source, permission_source) {
            current.replace(new);
        }
    }

    /// The permissions of a user, who has these permissions and groups at the IAM.
    async fn permissions(
        &self,
        subject: &Subject,
        at_iam: Permissions,
        groups: Option<Vec<String>>,
    ) -> Result<Permissions, IamError> {
        let Some((source, guard)) = &self.permission_source else {
            return Ok(at_iam);
        };
        let source = source.get();
        let requesters = [Requester::Subject(subject.clone())];
        let call = guard.call(&requesters, || {
            source.permissions(&self.name, subject, &at_iam, groups.as_deref())
        });
        self.in_span(Operation::Permissions, call)
            .await
            .map_err(|fault| IamError::PermissionSource(Box::new(fault)))
    }

    /// Makes a call in a span of the log, and in one of the trace.
    async fn in_span<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, IamError>>,
    ) -> Result<T, IamError> {
        let log_span = tracing::debug_span!(
            "iam",
            iam.name = &*self.name,
            iam.operation = operation.name(),
        );
        let span = ChildSpan::start(|| {
            SpanBuilder::from_name(format!("iam {}", operation.name())).with_attributes([
                KeyValue::new("iam.name", Arc::clone(&self.name)),
                KeyValue::new("iam.type", self.kind),
                KeyValue::new("iam.operation", operation.name()),
            ])
        });
        let result = span.around(call.instrument(log_span)).await;
        span.end(|span| match &result {
            // A wrong password is no failure of the call.
            Ok(_) => span.set_attribute(KeyValue::new("iam.outcome", "ok")),
            Err(refused @ IamError::Refused(_)) => {
                span.set_attribute(KeyValue::new("iam.outcome", refused.kind()));
            }
            Err(fault) => {
                span.set_attribute(KeyValue::new("iam.outcome", fault.kind()));
                trace::fail(span, fault.kind());
            }
        });
        result
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl IamAdapter for ResilientAdapter {
    fn name(&self) -> &'static str {
        self.kind
    }

    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let adapter = self.adapter.get();
        let account = Requester::Account(credentials.email().into());
        // Who has a /48 has all of its 65,536 networks.
        let network = client.address;
        let network = network.map(|address| address.site().unwrap_or_else(|| address.network()));
        let requesters: Vec<_> = iter::once(account)
            .chain(network.map(Requester::Network))
            .collect();
        let call = self
            .login
            .call(&requesters, || adapter.authenticate(credentials, client));
        let mut authenticated = self.in_span(Operation::Login, call).await?;
        if let Some(at_iam) = authenticated.permissions.take() {
            let (subject, groups) = (&authenticated.session.subject, authenticated.groups.take());
            // The session has begun. Without permissions, the first exchange reports the fault.
            let permissions = self.permissions(subject, at_iam, groups).await;
            authenticated.permissions = permissions.ok();
        }
        Ok(authenticated)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        // Clients repeat an exchange that fails. Without a decision, the IAM must not get their calls.
        if let Some((_, guard)) = &self.permission_source {
            guard
                .refuse_open()
                .map_err(|open| IamError::PermissionSource(Box::new(open)))?;
        }
        let adapter = self.adapter.get();
        let requesters = [Requester::Subject(session.subject.clone())];
        let call = self
            .introspection
            .call(&requesters, || adapter.introspect(session));
        let introspection = self.in_span(Operation::Introspection, call).await?;
        Ok(match introspection {
            Introspection::Inactive => Introspection::Inactive,
            // About another session, which the gateway refuses.
            Introspection::Active { ref subject, .. } if *subject != session.subject => {
                introspection
            }
            Introspection::Active {
                subject,
                permissions,
                groups,
            } => Introspection::Active {
                permissions: self.permissions(&subject, permissions, groups).await?,
                subject,
                groups: None,
            },
        })
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let adapter = self.adapter.get();
        let requesters = [Requester::Subject(session.subject.clone())];
        let call = self
            .logout
            .call(&requesters, || adapter.end_session(session));
        self.in_span(Operation::Logout, call).await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.logout_audience.as_deref()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let adapter = self.adapter.get();
        let call = self.keys.call(&[], || adapter.verification_keys());
        self.in_span(Operation::Keys, call).await
    }

    async fn probe(&self) -> Result<(), IamError> {
        let adapter = self.adapter.get();
        let call = self.probe.call(&[], || adapter.probe());
        let call = self.in_span(Operation::Probe, call);
        let observer = Arc::clone(&self.probe.observer);
        let result = CLOCK_OBSERVER.scope(observer, call).await;
        let is_down = result.as_ref().is_err_and(is_failure);
        for guard in [&self.login, &self.introspection, &self.logout, &self.keys] {
            if let Some(circuit) = &guard.circuit {
                circuit.probed(result.is_ok(), is_down);
            }
        }
        result
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        let adapter = self.adapter.get();
        let call = self.probe.call(&[], || adapter.probe_logout());
        self.in_span(Operation::Probe, call).await
    }
}

/// How many calls may wait for each permit. When all clients call at once, as after an outage, the
/// calls beyond it are refused immediately, and the clients retry spread over some seconds.
const WAITING_PER_PERMIT: usize = 8;

/// The part of the deadline in which a call must get a permit. The rest is for the response, so that
/// [`IamError::TimedOut`] is about the IAM and not about the wait for a permit.
const WAITING_SHARE: u32 = 2;

/// The concurrency limit, the circuit breaker, the deadline and the retries of one operation.
#[derive(Debug)]
struct OperationGuard {
    operation: Operation,
    deadline: Duration,
    permits: Semaphore,
    waiting: AtomicUsize,
    waiting_max: usize,
    /// None for [`Operation::Probe`].
    circuit: Option<CircuitBreaker>,
    observer: Arc<dyn Observer>,
}

impl OperationGuard {
    fn new(
        operation: Operation,
        limit: Limit,
        clock: &Arc<dyn Clock>,
        observer: &Arc<dyn Observer>,
    ) -> Self {
        // A probe has no circuit breaker, because it is the call that finds that the IAM is
        // available again. It comes from one task that pauses between two probes.
        let circuit = (operation != Operation::Probe).then(|| {
            let observer = Arc::clone(observer);
            CircuitBreaker::new(Arc::clone(clock), move |circuit| {
                observer.circuit(operation, circuit);
            })
        });
        Self {
            operation,
            deadline: limit.deadline,
            permits: Semaphore::new(limit.concurrency),
            waiting: AtomicUsize::new(0),
            waiting_max: limit.concurrency.saturating_mul(WAITING_PER_PERMIT),
            circuit,
            observer: Arc::clone(observer),
        }
    }

    /// Refuses a call that would be refused because the circuit is open, and reports it.
    fn refuse_open(&self) -> Result<(), IamError> {
        if self.circuit.as_ref().is_none_or(CircuitBreaker::admits) {
            return Ok(());
        }
        let open = IamError::CircuitOpen;
        self.observer
            .called(self.operation, Err(&open), Duration::ZERO);
        Err(open)
    }

    /// Makes one call for these requesters, with as many attempts as are allowed, and reports it once to
    /// the observer.
    async fn call<T, F>(
        &self,
        requesters: &[Requester],
        attempt: impl FnMut() -> F,
    ) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let started = Instant::now();
        let result = self.call_unobserved(started, requesters, attempt).await;
        self.observer.called(
            self.operation,
            result.as_ref().map(|_| ()),
            started.elapsed(),
        );
        result
    }

    async fn call_unobserved<T, F>(
        &self,
        started: Instant,
        requesters: &[Requester],
        attempt: impl FnMut() -> F,
    ) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let circuit = self.circuit.as_ref();
        if circuit.is_some_and(|circuit| !circuit.admits()) {
            return Err(IamError::CircuitOpen);
        }
        let _permit = self
            .acquire(started + self.deadline / WAITING_SHARE)
            .await?;
        // The circuit may have opened while this call waited.
        let permit = circuit
            .map(|circuit| circuit.admit().ok_or(IamError::CircuitOpen))
            .transpose()?;
        let result = self
            .attempts(started + self.deadline, permit.as_ref(), attempt)
            .await;
        if let Some(permit) = permit {
            // A server that cannot be reached has not seen for whom the call was.
            let is_unreachable = matches!(result, Err(IamError::Unreachable(_)));
            let requesters = if is_unreachable { &[] } else { requesters };
            permit.settle(result.as_ref().is_err_and(is_failure), requesters);
        }
        result
    }

    async fn acquire(&self, until: Instant) -> Result<SemaphorePermit<'_>, IamError> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiting);
        if before >= self.waiting_max {
            return Err(IamError::Saturated);
        }
        match timeout_at(until, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(IamError::Saturated),
        }
    }

    async fn attempts<T, F>(
        &self,
        deadline: Instant,
        permit: Option<&Permit<'_>>,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let mut retries = retries(self.operation);
        loop {
            match timeout_at(deadline, catch_panic(attempt())).await {
                Ok(Err(IamError::Unreachable(_)))
                    if retries > 0 && permit.is_none_or(Permit::take_retry) =>
                {
                    retries -= 1;
                }
                Ok(result) => return result,
                Err(_) => return Err(IamError::TimedOut(self.deadline)),
            }
        }
    }
}

/// Whether the IAM did not respond, or reported its own failure. With any other response it is
/// available, and a pause would change nothing.
fn is_failure(error: &IamError) -> bool {
    match error {
        IamError::Unreachable(_) | IamError::TimedOut(_) | IamError::Failed(_) => true,
        IamError::Refused(_)
        | IamError::Throttled { .. }
        | IamError::Unreadable(_)
        | IamError::UnreadableSession(_)
        | IamError::Misconfigured { .. }
        | IamError::Saturated
        | IamError::CircuitOpen
        | IamError::PermissionSource(_)
        | IamError::PossibleRefusal(_) => false,
    }
}

/// How many retries follow if the IAM cannot be reached. None for a login, because two wrong passwords
/// in a row may lock the account.
const fn retries(operation: Operation) -> u32 {
    match operation {
        Operation::Login => 0,
        Operation::Introspection
        | Operation::Logout
        | Operation::Keys
        | Operation::Probe
        | Operation::Permissions => 1,
    }
}

/// Turns a panic of the adapter into a fault of this call, which is counted and logged as any other.
async fn catch_panic<T>(attempt: impl Future<Output = Result<T, IamError>>) -> Result<T, IamError> {
    let mut attempt = pin!(attempt);
    let polled = poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    polled
        .await
        .unwrap_or_else(|_| Err(IamError::Unreadable("the adapter panicked".to_owned())))
}

/// Counts a waiting call out when the wait ends, also if the call is cancelled.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
