//! The state of this replica, and the last result of a call to the IAM.

mod lifecycle;
mod reason;
mod stale;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iam_adapters::resilient::{Circuit, Observer, Operation};
use iam_adapters::{Clock, IamError, Moment};

use crate::telemetry::metrics::Metrics;

pub use lifecycle::Lifecycle;
pub use reason::{Reason, ReasonCode};
use stale::Stale;

/// Whether this replica should get traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// Yes.
    #[default]
    Ready,
    /// Yes, although not everything works: without traffic, nothing would improve.
    Degraded,
    /// No.
    NotReady,
}

impl Readiness {
    /// The state's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::NotReady => "not_ready",
        }
    }
}

/// The content of `/health/ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whether the replica should get traffic.
    pub readiness: Readiness,
    /// Why it is not ready, or degraded.
    pub reasons: Vec<Reason>,
    /// The result of the last call to the IAM: `ok`, `none` before the first, or the kind of the fault.
    pub last_result: &'static str,
    /// The age of that result.
    pub age: Option<Duration>,
}

impl Report {
    /// Adds a reason for which the replica still gets traffic.
    pub fn degrade(&mut self, reason: Reason) {
        if self.readiness == Readiness::Ready {
            self.readiness = Readiness::Degraded;
        }
        self.reasons.push(reason);
    }
}

#[derive(Debug, Default)]
struct Iam {
    last: Option<(Moment, Result<(), IamError>)>,
    /// The fault of the last call to the source of permissions, if that is not the IAM.
    permission_source: Option<IamError>,
    /// Whether a call has ever succeeded.
    ever_ok: bool,
    /// Whether the replica is ready before the first call has ended.
    needs_no_probe: bool,
    /// The circuits that are not closed.
    circuits: BTreeMap<&'static str, Circuit>,
    stale: Stale,
}

impl Iam {
    /// Records the result of a call to the source of permissions.
    fn permission_source(&mut self, fault: Option<IamError>) {
        let fault = fault.map(|fault| IamError::PermissionSource(Box::new(fault)));
        if self.permission_source == fault {
            return;
        }
        if let Some(fault) = &fault {
            tracing::warn!(error = %fault, "calls to the permission source fail");
        } else {
            tracing::info!("calls to the permission source succeed again");
        }
        self.permission_source = fault;
    }
}

/// The state of this replica.
#[derive(Debug)]
pub struct Health {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    iam: Mutex<Iam>,
    /// The state of the replication.
    replicas: Mutex<(Readiness, Vec<Reason>)>,
    lifecycle: Lifecycle,
}

impl Health {
    /// The state of a replica that starts.
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>, lifecycle: Lifecycle) -> Self {
        Self {
            clock,
            metrics,
            iam: Mutex::default(),
            replicas: Mutex::default(),
            lifecycle,
        }
    }

    /// Makes the replica ready before the first probe. For an IAM that is part of this process.
    pub fn needs_no_probe(&self) {
        self.iam().needs_no_probe = true;
    }

    /// Sets the state of the replication and the reasons for it.
    pub fn replicas(&self, readiness: Readiness, reasons: Vec<Reason>) {
        *self.replicas.lock().unwrap_or_else(PoisonError::into_inner) = (readiness, reasons);
    }

    /// The current state of this replica.
    #[must_use]
    pub fn report(&self, now: Moment) -> Report {
        let iam = self.iam();
        let mut reasons = Vec::new();
        let mut readiness = Readiness::Ready;
        if let Some((_, Err(fault))) = &iam.last
            && let Some(code) = ReasonCode::of_fault(fault)
        {
            readiness = match fault {
                // A replica without a successful call has no cached data, and a rollout of wrong
                // settings should stop at the first replica. But if the probe does not detect the
                // fault, only traffic shows that the settings are right again.
                IamError::Misconfigured { what, .. } if !iam.ever_ok && what.fails_probes() => {
                    Readiness::NotReady
                }
                IamError::Misconfigured { .. }
                | IamError::Refused(_)
                | IamError::Unreachable(_)
                | IamError::TimedOut(_)
                | IamError::Failed(_)
                | IamError::Throttled { .. }
                | IamError::Unreadable(_)
                | IamError::Saturated
                | IamError::CircuitOpen
                | IamError::PermissionSource(_) => Readiness::Degraded,
            };
            reasons.push(Reason {
                code,
                message: fault.to_string(),
            });
        }
        // The first probe ends within `upstream.probe_deadline`, with or without a response.
        if iam.last.is_none() && !iam.needs_no_probe {
            readiness = Readiness::NotReady;
            reasons.push(Reason {
                code: ReasonCode::IamNotProbed,
                message: "the first probe of the IAM has not ended yet".to_owned(),
            });
        }
        let mut also = |code, message| {
            if readiness == Readiness::Ready {
                readiness = Readiness::Degraded;
            }
            reasons.push(Reason { code, message });
        };
        if let Some(fault) = &iam.permission_source {
            also(ReasonCode::PermissionSource, fault.to_string());
        }
        let open: Vec<_> = iam
            .circuits
            .iter()
            .filter(|(_, circuit)| **circuit == Circuit::Open)
            .map(|(operation, _)| *operation)
            .collect();
        if !open.is_empty() {
            let open = open.join(", ");
            let message =
                format!("the IAM is not called, because too many calls have failed: {open}");
            also(ReasonCode::CircuitOpen, message);
        }
        if iam.stale.is_active(now) {
            let message = "access tokens are issued with stale data, as stale_if_error allows";
            also(ReasonCode::ServingStale, message.to_owned());
        }
        let replicas = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        let (allowed, replicas) = &*replicas;
        readiness = readiness.max(*allowed);
        reasons.extend(replicas.iter().cloned());
        if self.lifecycle.is_shutting_down() {
            readiness = Readiness::NotReady;
            reasons.push(Reason {
                code: ReasonCode::Stopping,
                message: "this replica is about to stop".to_owned(),
            });
        }
        Report {
            readiness,
            reasons,
            last_result: match &iam.last {
                None => "none",
                Some((_, Ok(()))) => "ok",
                Some((_, Err(fault))) => fault.kind(),
            },
            age: iam.last.as_ref().map(|(at, _)| now.since(*at)),
        }
    }

    /// Records that an access token was issued with stale data.
    pub fn served_stale(&self) {
        let now = self.clock.now();
        self.iam().stale.served(now);
    }

    fn iam(&self) -> MutexGuard<'_, Iam> {
        self.iam.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every call to the IAM sets the last result, except for calls that the IAM did not receive.
impl Observer for Health {
    fn called(&self, operation: Operation, result: Result<(), &IamError>, took: Duration) {
        self.metrics.iam.called(operation, result, took);
        let now = self.clock.now();
        let mut iam = self.iam();
        iam.stale.update(now);
        let result = match result {
            // An IAM that refuses a login works.
            Ok(()) | Err(IamError::Refused(_)) => Ok(()),
            Err(IamError::Saturated | IamError::CircuitOpen) => return,
            Err(fault) => Err(fault.clone()),
        };
        if operation == Operation::Permissions {
            iam.permission_source(result.err());
            return;
        }
        let before = iam.last.take().map(|(_, result)| result);
        match (&before, &result) {
            (Some(Err(_)), Ok(())) => {
                let operation = operation.name();
                tracing::info!(iam.operation = operation, "calls to the IAM succeed again");
            }
            (None | Some(Ok(())), Err(fault)) => {
                tracing::warn!(iam.operation = operation.name(), error = %fault, "calls to the IAM fail");
            }
            (Some(Err(old)), Err(new)) if old != new => {
                tracing::warn!(iam.operation = operation.name(), error = %new, "calls to the IAM fail");
            }
            _ => {}
        }
        iam.ever_ok |= result.is_ok();
        iam.last = Some((now, result));
    }

    /// A circuit that is half-open and opens again is not logged as a new outage.
    fn circuit(&self, operation: Operation, circuit: Circuit) {
        self.metrics.iam.circuit(operation, circuit);
        let name = operation.name();
        let mut iam = self.iam();
        let before = match circuit {
            Circuit::Closed => iam.circuits.remove(name),
            Circuit::HalfOpen | Circuit::Open => iam.circuits.insert(name, circuit),
        };
        match (before, circuit) {
            (_, Circuit::Closed) => {
                tracing::info!(
                    iam.operation = name,
                    "the circuit is closed: all calls go to the IAM"
                );
            }
            (None, _) => {
                tracing::warn!(
                    iam.operation = name,
                    "the circuit is open: no call goes to the IAM"
                );
            }
            (Some(_), _) => {
                tracing::debug!(
                    iam.operation = name,
                    circuit = circuit.name(),
                    "the circuit changed its state"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
