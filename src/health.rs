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
    /// Yes, though not everything works: taking it away would help nobody.
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

/// What `/health/ready` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The verdict.
    pub readiness: Readiness,
    /// What it rests on; empty where all is well.
    pub reasons: Vec<Reason>,
    /// How the last call to the IAM ended: `ok`, `none` before the first, or the kind of the fault.
    pub last_result: &'static str,
    /// How long ago that was.
    pub age: Option<Duration>,
}

impl Report {
    /// Adds something that needs attention and is no reason to take this replica away.
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
    /// Whether it ever served this replica.
    ever_ok: bool,
    /// Whether the replica is ready before the first call ended.
    needs_no_probe: bool,
    /// The circuits that are not closed.
    circuits: BTreeMap<&'static str, Circuit>,
    stale: Stale,
}

/// The state of this replica.
#[derive(Debug)]
pub struct Health {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    iam: Mutex<Iam>,
    /// What is wrong between the replicas.
    replicas: Mutex<(Readiness, Vec<Reason>)>,
    lifecycle: Lifecycle,
}

impl Health {
    /// A replica that just began.
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>, lifecycle: Lifecycle) -> Self {
        Self {
            clock,
            metrics,
            iam: Mutex::default(),
            replicas: Mutex::default(),
            lifecycle,
        }
    }

    /// The IAM is part of this process and cannot hang at the start, so the replica is ready before
    /// the first probe.
    pub fn needs_no_probe(&self) {
        self.iam().needs_no_probe = true;
    }

    /// Takes what is wrong between this replica and the others, and how much that matters; no
    /// reasons, where all is well.
    pub fn replicas(&self, readiness: Readiness, reasons: Vec<Reason>) {
        *self.replicas.lock().unwrap_or_else(PoisonError::into_inner) = (readiness, reasons);
    }

    /// How this replica is doing.
    #[must_use]
    pub fn report(&self, now: Moment) -> Report {
        let iam = self.iam();
        let mut reasons = Vec::new();
        let mut readiness = Readiness::Ready;
        if let Some((_, Err(fault))) = &iam.last
            && let Some(code) = ReasonCode::of_fault(fault)
        {
            readiness = match fault {
                // A replica that was never served has no knowledge to serve from, and a rollout
                // of wrong settings should stop at the first replica. But where no probe fails,
                // only traffic shows that the settings are right again.
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
                | IamError::CircuitOpen => Readiness::Degraded,
            };
            reasons.push(Reason {
                code,
                message: fault.to_string(),
            });
        }
        // The first probe ends within `upstream.probe_deadline`, answered or not.
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
        let open: Vec<_> = iam
            .circuits
            .iter()
            .filter(|(_, circuit)| **circuit == Circuit::Open)
            .map(|(operation, _)| *operation)
            .collect();
        if !open.is_empty() {
            let open = open.join(", ");
            let message =
                format!("the IAM failed too often of late, and is not asked for now: {open}");
            also(ReasonCode::CircuitOpen, message);
        }
        if iam.stale.goes_on(now) {
            let message = "tokens are signed on stale knowledge, as stale_if_error allows";
            also(ReasonCode::ServingStale, message.to_owned());
        }
        let replicas = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        let (allowed, replicas) = &*replicas;
        readiness = readiness.max(*allowed);
        reasons.extend(replicas.iter().cloned());
        if self.lifecycle.is_leaving() {
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

    /// Takes note that a token was signed on stale knowledge.
    pub fn served_stale(&self) {
        let now = self.clock.now();
        self.iam().stale.served(now);
    }

    fn iam(&self) -> MutexGuard<'_, Iam> {
        self.iam.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of every call to the IAM is the last one until the next, except for calls that the
/// IAM never received.
impl Observer for Health {
    fn called(&self, operation: Operation, result: Result<(), &IamError>, took: Duration) {
        self.metrics.iam.called(operation, result, took);
        let now = self.clock.now();
        let mut iam = self.iam();
        iam.stale.look(now);
        let word = match result {
            // A refusal is the answer of an IAM that works.
            Ok(()) | Err(IamError::Refused(_)) => Ok(()),
            Err(IamError::Saturated | IamError::CircuitOpen) => return,
            Err(fault) => Err(fault.clone()),
        };
        let before = iam.last.take().map(|(_, word)| word);
        match (&before, &word) {
            (Some(Err(_)), Ok(())) => {
                tracing::info!(iam.operation = operation.name(), "the IAM answers again");
            }
            (None | Some(Ok(())), Err(fault)) => {
                tracing::warn!(iam.operation = operation.name(), error = %fault, "the IAM does not serve");
            }
            (Some(Err(old)), Err(new)) if old != new => {
                tracing::warn!(iam.operation = operation.name(), error = %new, "the IAM does not serve");
            }
            _ => {}
        }
        iam.ever_ok |= word.is_ok();
        iam.last = Some((now, word));
    }

    /// A circuit that is tried and opens again goes on being open, as far as the log is concerned.
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
                    "the circuit is tried"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
