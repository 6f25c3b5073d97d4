//! The state of this replica, and the last result of a call to each IAM.

mod certificate;
mod lifecycle;
mod reason;
mod replication;
mod stale;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::name::Name;
use iam_adapters::resilient::{CallEvent, Circuit, Operation};
use iam_adapters::{Clock, IamError, Misconfiguration, Moment};
use parking_lot::Mutex;
use strum::IntoStaticStr;

use auth_gateway_core::event::{Event, Subscriber};
use auth_gateway_core::results::DataSource;

pub use certificate::Validity;
pub use lifecycle::Lifecycle;
pub(crate) use reason::{Reason, ReasonCode};
use replication::Replication;
use stale::Stale;

/// Whether this replica should get traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Readiness {
    /// Yes.
    #[default]
    Ready,
    /// Yes, although not everything works: without traffic, nothing would improve.
    Degraded,
    /// No.
    NotReady,
}

/// The last result of the calls to one IAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastResult {
    /// `ok`, `none` before the first call has ended, or the kind of the fault.
    pub result: &'static str,
    /// Its age.
    pub age: Option<Duration>,
}

/// The content of `/health/ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whether the replica should get traffic.
    pub readiness: Readiness,
    /// Why it is not ready, or degraded.
    pub reasons: Vec<Reason>,
    /// The last result of each IAM, in the order of [`Health::new`].
    pub iams: Vec<LastResult>,
}

impl Report {
    pub(crate) fn add(&mut self, reason: Reason) {
        self.readiness = self.readiness.max(reason.readiness);
        self.reasons.push(reason);
    }
}

/// Where the calls of an operation go.
const fn callee(operation: Operation) -> &'static str {
    match operation {
        Operation::Permissions => "permission source",
        _ => "IAM",
    }
}

/// The calls to an IAM, or to the source of permissions that it has.
#[derive(Debug, Default)]
struct CallResults {
    last: Option<(Moment, Result<(), IamError>)>,
    /// Whether a call has ever succeeded.
    ever_ok: bool,
}

impl CallResults {
    fn fault(&self) -> Option<&IamError> {
        self.last.as_ref()?.1.as_ref().err()
    }

    /// Records a result. Only a change is logged.
    fn record(
        &mut self,
        (iam, operation): (&str, Operation),
        now: Moment,
        result: Result<(), IamError>,
    ) {
        let (callee, operation) = (callee(operation), operation.name());
        match (self.fault(), &result) {
            (Some(_), Ok(())) => {
                tracing::info!(
                    iam.name = iam,
                    iam.operation = operation,
                    "calls to the {callee} succeed again"
                );
            }
            (old, Err(new)) if old != Some(new) => {
                tracing::warn!(iam.name = iam, iam.operation = operation, error = %format_args!("{new:#}"), "calls to the {callee} fail");
            }
            _ => {}
        }
        self.ever_ok |= result.is_ok();
        self.last = Some((now, result));
    }
}

#[derive(Debug, Default)]
struct HealthState {
    iam: CallResults,
    permission_source: CallResults,
    /// The circuits that are not closed.
    circuits: BTreeMap<&'static str, Circuit>,
    stale: Stale,
    /// Of the IAM's clock, in seconds.
    clock_offset: f64,
}

/// The state of one IAM.
#[derive(Debug)]
struct IamHealth {
    name: Box<str>,
    state: Mutex<HealthState>,
}

/// The state of this replica.
#[derive(Debug)]
pub struct Health {
    clock: Arc<dyn Clock>,
    iams: Vec<IamHealth>,
    replica: Mutex<ReplicaHealth>,
    lifecycle: Lifecycle,
}

/// What does not depend on the IAMs.
#[derive(Debug, Default)]
struct ReplicaHealth {
    replication: Replication,
    /// Why the files that the settings name cannot be used as they are now.
    files: Option<Reason>,
    /// That of the certificate in use; `None`: there is none.
    certificate: Option<Validity>,
    /// The readiness that was logged last, and its reasons.
    logged: Option<(Readiness, Vec<ReasonCode>)>,
}

impl Health {
    /// The state of a replica that starts, with IAMs of these names.
    pub(crate) fn new(clock: Arc<dyn Clock>, iams: &[&str], lifecycle: Lifecycle) -> Self {
        let iams = iams.iter().map(|name| IamHealth {
            name: (*name).into(),
            state: Mutex::default(),
        });
        Self {
            clock,
            iams: iams.collect(),
            replica: Mutex::default(),
            lifecycle,
        }
    }

    /// Sets the reason why the files that the settings name cannot be used as they are now; `None`:
    /// they are in use.
    pub(crate) fn files(&self, reason: Option<Reason>) {
        self.replica.lock().files = reason;
    }

    /// The reason of [`Health::files`].
    pub(crate) fn files_reason(&self) -> Option<Reason> {
        self.replica.lock().files.clone()
    }

    /// Sets when the certificate in use is valid; `None`: there is none.
    pub(crate) fn certificate(&self, validity: Option<Validity>) {
        self.replica.lock().certificate = validity;
    }

    /// The reason why clients refuse the certificate in use now.
    pub(crate) fn certificate_reason(&self, now: Moment) -> Option<Reason> {
        let problem = self.replica.lock().certificate?.problem(now)?;
        let message = format!("clients refuse the connection: {problem}");
        Some(Reason::new(ReasonCode::CertificateInvalid, message))
    }

    /// The current state of this replica.
    #[must_use]
    pub fn report(&self, now: Moment) -> Report {
        let mut report = self.report_of_iams(now);
        let of_replication = self.replica.lock().replication.reasons();
        let stopping = self.lifecycle.is_shutting_down().then(|| {
            let message = "this replica is about to stop";
            Reason::new(ReasonCode::Stopping, message)
        });
        of_replication
            .chain(stopping)
            .chain(self.files_reason())
            .chain(self.certificate_reason(now))
            .for_each(|reason| report.add(reason));
        report
    }

    /// Logs a report that differs from the last one by its state or its reasons. Not ready is expected
    /// while a replica starts or stops.
    pub(crate) fn log_change(&self, report: &Report) {
        let codes: Vec<_> = report.reasons.iter().map(|reason| reason.code).collect();
        let is_expected = codes.iter().any(|code| code.is_of_start_or_stop());
        let names: Vec<_> = codes.iter().map(Name::name).collect();
        let current = Some((report.readiness, codes));
        if mem::replace(&mut self.replica.lock().logged, current.clone()) == current {
            return;
        }
        let readiness = report.readiness.name();
        let reasons = (!names.is_empty()).then(|| names.join(", "));
        let reasons = reasons.as_deref();
        if report.readiness == Readiness::NotReady && !is_expected {
            tracing::warn!(readiness, reasons, "readiness changed");
        } else {
            tracing::info!(readiness, reasons, "readiness changed");
        }
    }

    /// Not ready only if no IAM is: users of one IAM must not lose the replica because of another.
    fn report_of_iams(&self, now: Moment) -> Report {
        let reasons: Vec<_> = self.iams.iter().map(|iam| iam.reasons(now)).collect();
        let readiness = reasons.iter().map(|reasons| {
            let readiness = reasons.iter().map(|reason| reason.readiness);
            readiness.max().unwrap_or_default()
        });
        let (best, worst) = (readiness.clone().min(), readiness.max());
        Report {
            readiness: match (best, worst) {
                (Some(Readiness::Ready | Readiness::Degraded), Some(Readiness::NotReady)) => {
                    Readiness::Degraded
                }
                (_, worst) => worst.unwrap_or_default(),
            },
            reasons: reasons.into_iter().flatten().collect(),
            iams: self.iams.iter().map(|iam| iam.last_result(now)).collect(),
        }
    }

    fn iam(&self, name: &str) -> Option<&IamHealth> {
        self.iams.iter().find(|iam| *iam.name == *name)
    }
}

impl Subscriber for Health {
    fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Exchange {
                iam: Some(iam),
                result: Ok(DataSource::Stale),
                ..
            } => {
                if let Some(iam) = self.iam(iam) {
                    iam.state.lock().stale.served(&iam.name, self.clock.now());
                }
            }
            Event::Iam { iam, event } => {
                let Some(iam) = self.iam(iam) else { return };
                match event {
                    CallEvent::Called {
                        operation, result, ..
                    } => iam.called(operation, result, self.clock.now()),
                    CallEvent::Circuit { operation, circuit } => iam.circuit(operation, circuit),
                    CallEvent::Clock { offset } => iam.state.lock().clock_offset = offset,
                }
            }
            Event::Clock { .. } | Event::Replication { .. } => {
                self.replica.lock().replication.on_event(event);
            }
            _ => {}
        }
    }
}

impl IamHealth {
    fn last_result(&self, now: Moment) -> LastResult {
        let state = self.state.lock();
        LastResult {
            result: match &state.iam.last {
                None => "none",
                Some((_, Ok(()))) => "ok",
                Some((_, Err(fault))) => fault.kind(),
            },
            // [`Moment::since`] has no length if the wall clock was set back.
            age: state
                .iam
                .last
                .as_ref()
                .map(|(at, _)| now.monotonic.saturating_sub(at.monotonic)),
        }
    }

    fn reasons(&self, now: Moment) -> Vec<Reason> {
        let state = self.state.lock();
        let mut reasons = Vec::new();
        if let Some(fault) = state.iam.fault()
            && let Some(code) = ReasonCode::of_fault(fault)
        {
            let mut reason = Reason::new(code, format!("{fault:#}"));
            // A replica without a successful call has no cached data, and a rollout of wrong settings
            // should stop at the first replica. But if the probe does not detect the fault, only
            // traffic shows that the settings are right again.
            if let IamError::Misconfigured { what, .. } = fault
                && !state.iam.ever_ok
                && what.fails_probes()
            {
                reason.readiness = Readiness::NotReady;
            }
            reasons.push(reason);
        }
        // The first probe ends within `upstream.probe_deadline`, with or without a response.
        if state.iam.last.is_none() {
            let message = "the first probe of the IAM has not ended yet";
            reasons.push(Reason::new(ReasonCode::IamNotProbed, message));
        }
        if let Some(fault) = state.permission_source.fault() {
            let message = format!("{fault:#}");
            reasons.push(Reason::new(ReasonCode::PermissionSource, message));
        }
        let open = state.circuits.iter();
        let open = open.filter(|(_, circuit)| **circuit == Circuit::Open);
        let (of_source, of_iam): (Vec<_>, Vec<_>) = open
            .map(|(operation, _)| *operation)
            .partition(|operation| *operation == Operation::Permissions.name());
        for (callee, open) in [("IAM", of_iam), ("permission source", of_source)] {
            if !open.is_empty() {
                let open = open.join(", ");
                let message = format!(
                    "the {callee} is not called, because too many calls have failed: {open}"
                );
                reasons.push(Reason::new(ReasonCode::CircuitOpen, message));
            }
        }
        if state.stale.is_active(now) {
            let message = "access tokens are issued with stale data, as stale_if_error allows";
            reasons.push(Reason::new(ReasonCode::ServingStale, message));
        }
        let peer = format!("the IAM {}", self.name);
        reasons.extend(Reason::of_clock(&peer, state.clock_offset));
        let reasons = reasons.into_iter();
        reasons.map(|reason| reason.of_iam(&self.name)).collect()
    }

    /// Every call to the IAM sets its last result, except for calls that the IAM did not receive, and for
    /// faults of one session alone.
    fn called(&self, operation: Operation, result: Result<(), &IamError>, now: Moment) {
        let mut state = self.state.lock();
        state.stale.update(&self.name, now);
        let result = match result {
            // Only a login with the right password, or a probe, shows that these have ended.
            Err(IamError::Refused(_))
                if matches!(
                    state.iam.fault(),
                    Some(
                        IamError::Unreadable(_)
                            | IamError::Misconfigured {
                                what: Misconfiguration::Introspection | Misconfiguration::Other,
                                ..
                            }
                    )
                ) =>
            {
                return;
            }
            // An IAM that refuses a login works.
            Ok(()) | Err(IamError::Refused(_)) => Ok(()),
            // The fault of one session says nothing about the calls for others.
            Err(IamError::UnreadableSession(_) | IamError::Saturated | IamError::CircuitOpen) => {
                return;
            }
            Err(fault) => Err(fault.fault().clone()),
        };
        let (calls, result) = match operation {
            Operation::Permissions => (
                &mut state.permission_source,
                result.map_err(IamError::of_permission_source),
            ),
            _ => (&mut state.iam, result),
        };
        calls.record((&self.name, operation), now, result);
    }

    /// A circuit that is half-open and opens again is not logged as a new outage.
    fn circuit(&self, operation: Operation, circuit: Circuit) {
        let (iam, callee, operation) = (&*self.name, callee(operation), operation.name());
        let mut state = self.state.lock();
        let before = match circuit {
            Circuit::Closed => state.circuits.remove(operation),
            Circuit::HalfOpen | Circuit::Open => state.circuits.insert(operation, circuit),
        };
        match (before, circuit) {
            (_, Circuit::Closed) => {
                tracing::info!(
                    iam.name = iam,
                    iam.operation = operation,
                    "the circuit is closed: all calls go to the {callee}"
                );
            }
            (None, _) => {
                tracing::warn!(
                    iam.name = iam,
                    iam.operation = operation,
                    "the circuit is open: no call goes to the {callee}"
                );
            }
            (Some(_), _) => {
                tracing::debug!(
                    iam.name = iam,
                    iam.operation = operation,
                    circuit = circuit.name(),
                    "the circuit changed its state"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
