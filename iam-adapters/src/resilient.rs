//! Resilience around every adapter, in layers with one concern each: observation, circuit breaker,
//! concurrency limit, deadline, retries. [`CallLayers::call`] has their order.

mod circuit_breaker;
mod concurrency_limit;
mod observation;
mod retry;

use std::cell::Cell;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use strum::{IntoStaticStr, VariantArray};
use tokio::time::{Instant, timeout_at};

use crate::adapter::{Capabilities, IamAdapter, SessionLocation};
use crate::client::{CLOCK_OFFSET, DEADLINE};
use crate::clock::Clock;
use crate::error::IamError;
use crate::jwk::VerificationKeys;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

pub use circuit_breaker::{Circuit, CircuitBreaker, Permit, Requester};

use concurrency_limit::ConcurrencyLimit;
use observation::Observation;
use retry::with_retries;

/// The part of the deadline in which a call must get a permit. The rest is for the response, so that
/// [`IamError::TimedOut`] is about the IAM and not about the wait for a permit.
const WAITING_SHARE: u32 = 2;

/// A call of the gateway to an IAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
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
    /// [`PermissionSource::permissions`](crate::permission_source::PermissionSource::permissions). Not a
    /// call to the IAM.
    Permissions,
}

impl Operation {
    /// Every operation.
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// The deadline and the concurrency limit of one operation.
///
/// Each operation has its own, so that a flood of logins cannot starve introspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit {
    /// From the start of the wait for a permit to the last byte of the response, retry included.
    pub deadline: Duration,
    /// The maximum number of concurrent calls. Further calls wait for a permit: at most eight for
    /// each permit, and each for at most half of its deadline.
    pub concurrency: usize,
}

/// The limit of each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Of [`Operation::Login`].
    pub login: CallLimit,
    /// Of [`Operation::Introspection`].
    pub introspection: CallLimit,
    /// Of [`Operation::Logout`].
    pub logout: CallLimit,
    /// Of [`Operation::Keys`].
    pub keys: CallLimit,
    /// Of [`Operation::Probe`].
    pub probe: CallLimit,
}

/// What an [`Observer`] receives.
#[derive(Debug, Clone, Copy)]
pub enum CallEvent<'e> {
    /// A call to the IAM, or to the source of permissions, has ended.
    Called {
        /// The call.
        operation: Operation,
        /// Whether it succeeded.
        result: Result<(), &'e IamError>,
        /// Its duration, retries included.
        took: Duration,
    },
    /// The circuit of an operation has changed.
    Circuit {
        /// The operation.
        operation: Operation,
        /// Its state from now on.
        circuit: Circuit,
    },
    /// The IAM's clock was compared with that of this replica, by a response to a probe.
    Clock {
        /// The [`offset`](crate::clock::offset).
        offset: f64,
    },
}

/// Receives the result of every call to the IAM, every change of a circuit, and each comparison of the IAM's clock.
pub type Observer = Arc<dyn Fn(&CallEvent<'_>) + Send + Sync>;

/// The layers around the calls of one operation.
#[derive(Debug)]
pub(crate) struct CallLayers {
    observation: Observation,
    /// None for [`Operation::Probe`].
    circuit: Option<CircuitBreaker>,
    concurrency: ConcurrencyLimit,
    deadline: Duration,
}

impl CallLayers {
    /// The layers of calls to the IAM with this name, by an adapter of this kind.
    pub(crate) fn new(
        (iam, kind): (&Arc<str>, &'static str),
        operation: Operation,
        limit: CallLimit,
        clock: &Arc<dyn Clock>,
        observer: &Observer,
    ) -> Self {
        // A probe has no circuit breaker, because it is the call that finds that the IAM is
        // available again. It comes from one task that pauses between two probes.
        let circuit = (operation != Operation::Probe).then(|| {
            let observer = Arc::clone(observer);
            CircuitBreaker::new(Arc::clone(clock), move |circuit| {
                observer(&CallEvent::Circuit { operation, circuit });
            })
        });
        Self {
            observation: Observation {
                iam: Arc::clone(iam),
                kind,
                operation,
                observer: Arc::clone(observer),
            },
            circuit,
            concurrency: ConcurrencyLimit::new(limit.concurrency),
            deadline: limit.deadline,
        }
    }

    /// Makes one call for these requesters, with as many attempts as are allowed.
    pub(crate) async fn call<T, F>(
        &self,
        requesters: &[Requester],
        attempt: impl FnMut() -> F,
    ) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let call = async {
            let started = Instant::now();
            let deadline = started + self.deadline;
            self.check_circuit()?;
            let until = started + self.deadline / WAITING_SHARE;
            let _permit = self.concurrency.acquire(until).await?;
            // The circuit may have opened while this call waited.
            let admitted = self.circuit.as_ref();
            let admitted = admitted.map(|circuit| circuit.admit().ok_or(IamError::CircuitOpen));
            let admitted = admitted.transpose()?;
            let attempts = with_retries(self.observation.operation, admitted.as_ref(), attempt);
            let ended = timeout_at(deadline, DEADLINE.scope(deadline, attempts)).await;
            let result = ended.unwrap_or(Err(IamError::TimedOut(self.deadline)));
            if let Some(permit) = admitted {
                // A server that cannot be reached has not seen for whom the call was.
                let is_unreachable = result
                    .as_ref()
                    .is_err_and(|error| matches!(error.fault(), IamError::Unreachable(_)));
                let requesters = if is_unreachable { &[] } else { requesters };
                let is_failure = result.as_ref().is_err_and(IamError::is_failure);
                permit.settle(is_failure, requesters);
            }
            result
        };
        self.observation.observe(call).await
    }

    /// Refuses a call while the circuit is open. A circuit whose pause is over half-opens here.
    pub(crate) fn check_circuit(&self) -> Result<(), IamError> {
        let circuit = self.circuit.as_ref();
        let is_open = circuit.is_some_and(|circuit| !circuit.admits());
        is_open.then_some(IamError::CircuitOpen).map_or(Ok(()), Err)
    }

    /// Refuses a call that would be refused because the circuit is open, and reports it.
    pub(crate) fn refuse_open(&self) -> Result<(), IamError> {
        self.check_circuit()
            .inspect_err(|open| self.observation.report(Err(open), Duration::ZERO))
    }
}

/// An adapter with [`CallLayers`] around each operation: a deadline, a concurrency limit and a circuit
/// breaker, and one retry of idempotent calls if the IAM could not be reached.
#[derive(Debug)]
pub struct ResilientAdapter {
    adapter: Arc<ArcSwap<Arc<dyn IamAdapter>>>,
    // These do not change when the adapter is replaced.
    kind: &'static str,
    issuer: Box<str>,
    logout_audience: Option<Box<str>>,
    capabilities: Capabilities,
    login: CallLayers,
    introspection: CallLayers,
    logout: CallLayers,
    keys: CallLayers,
    probe: CallLayers,
}

impl ResilientAdapter {
    /// Wraps the adapter of the IAM with this name in the configuration. It may be replaced by one with
    /// the same settings and other secrets or certificates; calls in progress end with the previous one.
    /// The circuit breakers use the clock.
    #[must_use]
    pub fn new(
        iam: &Arc<str>,
        adapter: Arc<ArcSwap<Arc<dyn IamAdapter>>>,
        limits: CallLimits,
        clock: &Arc<dyn Clock>,
        observer: &Observer,
    ) -> Self {
        let current = adapter.load_full();
        let kind = current.name();
        let layers =
            |operation, limit| CallLayers::new((iam, kind), operation, limit, clock, observer);
        Self {
            kind,
            issuer: current.issuer().into(),
            logout_audience: current.logout_audience().map(Into::into),
            capabilities: current.capabilities(),
            adapter,
            login: layers(Operation::Login, limits.login),
            introspection: layers(Operation::Introspection, limits.introspection),
            logout: layers(Operation::Logout, limits.logout),
            keys: layers(Operation::Keys, limits.keys),
            probe: layers(Operation::Probe, limits.probe),
        }
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
        let adapter = self.adapter.load_full();
        let account = Requester::Account(credentials.email().into());
        // Who has a /48 has all of its 65,536 networks.
        let network = client.address;
        let network = network.map(|address| address.site().unwrap_or_else(|| address.network()));
        let requesters: Vec<_> = iter::once(account)
            .chain(network.map(Requester::Network))
            .collect();
        let attempt = || adapter.authenticate(credentials, client);
        self.login.call(&requesters, attempt).await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let adapter = self.adapter.load_full();
        let requesters = [Requester::Subject(session.subject.clone())];
        let attempt = || adapter.introspect(session);
        self.introspection.call(&requesters, attempt).await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        // There is nothing to call. A success would be reported of an IAM that may be away.
        if self.capabilities.sessions == SessionLocation::SessionToken {
            return Ok(());
        }
        let adapter = self.adapter.load_full();
        let requesters = [Requester::Subject(session.subject.clone())];
        let attempt = || adapter.end_session(session);
        self.logout.call(&requesters, attempt).await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.logout_audience.as_deref()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let adapter = self.adapter.load_full();
        self.keys.call(&[], || adapter.verification_keys()).await
    }

    async fn probe(&self) -> Result<(), IamError> {
        let adapter = self.adapter.load_full();
        let call = async {
            let result = self.probe.call(&[], || adapter.probe()).await;
            (result, CLOCK_OFFSET.with(Cell::get))
        };
        let (result, offset) = CLOCK_OFFSET.scope(Cell::default(), call).await;
        if let Some(offset) = offset {
            (self.probe.observation.observer)(&CallEvent::Clock { offset });
        }
        let is_down = result.as_ref().is_err_and(IamError::is_failure);
        for layers in [&self.login, &self.introspection, &self.logout, &self.keys] {
            if let Some(circuit) = &layers.circuit {
                circuit.probed(result.is_ok(), is_down);
            }
        }
        result
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        let adapter = self.adapter.load_full();
        self.probe.call(&[], || adapter.probe_logout()).await
    }
}

#[cfg(test)]
mod tests;
