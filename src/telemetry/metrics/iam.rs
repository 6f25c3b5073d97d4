//! The metrics of each IAM.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::{Circuit, Operation};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Histograms, IamLabels, each, register, register_histograms, register_with_unit};
use auth_gateway_core::results::{Source, UpstreamLogoutOutcome};

/// The outcomes of a call to the IAM.
const OUTCOMES: [&str; 10] = [
    "ok",
    "refused",
    "unreachable",
    "timed_out",
    "failed",
    "throttled",
    "unreadable",
    "misconfigured",
    "saturated",
    "circuit_open",
];

/// The metrics of all IAMs.
#[derive(Debug)]
pub struct IamFamilies {
    exchanges: Family<IamLabels<2>, Counter>,
    calls: Family<IamLabels<3>, Counter>,
    durations: Histograms<IamLabels<2>>,
    circuits: Family<IamLabels<2>, Gauge>,
    clock_offsets: Family<IamLabels<2>, ClockOffset>,
    unfinished_logouts: Family<IamLabels<1>, Gauge>,
    ended_logouts: Family<IamLabels<2>, Counter>,
}

/// By how many seconds the clock of a peer is ahead.
pub(super) type ClockOffset = Gauge<f64, AtomicU64>;

impl IamFamilies {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let help = "Exchanges, by the source of their data";
        let exchanges = register(registry, "exchanges", help);
        let help = "Calls to the IAM, by outcome; permissions: to the source of permissions";
        let calls = register(registry, "iam_calls", help);
        let help = "Duration of calls to the IAM, retries included";
        let durations = register_histograms(registry, "iam_call_duration", help);
        let help = "Circuit breaker of calls to the IAM: 0 closed, 1 half-open, 2 open";
        let circuits = register(registry, "iam_circuit", help);
        let help = "By how much the clock of an IAM or of Redis is at least ahead of the clock of this replica";
        let clock_offsets = register_with_unit(registry, "clock_offset", help, Unit::Seconds);
        let help = "Logouts that failed at the IAM and are not finished yet";
        let unfinished_logouts = register(registry, "unfinished_logouts", help);
        let help = "Logouts that failed at the IAM and are no longer repeated";
        let ended_logouts = register(registry, "unfinished_logouts_ended", help);
        Self {
            exchanges,
            calls,
            durations,
            circuits,
            clock_offsets,
            unfinished_logouts,
            ended_logouts,
        }
    }

    /// The metrics of the IAM with this name.
    pub(super) fn of(&self, name: &str) -> IamMetrics {
        let label = |operation: Operation| ("operation", operation.name().to_owned());
        let iam = || ("iam", name.to_owned());
        IamMetrics {
            name: name.into(),
            exchanges: each(|source: Source| {
                let labels = [("source", source.name().to_owned()), iam()];
                self.exchanges.get_or_create_owned(&labels)
            }),
            ended_logouts: each(|outcome: UpstreamLogoutOutcome| {
                let labels = [("outcome", outcome.name().to_owned()), iam()];
                self.ended_logouts.get_or_create_owned(&labels)
            }),
            calls: Operation::ALL.map(|operation| {
                OUTCOMES.map(|outcome| {
                    let outcome = ("outcome", outcome.to_owned());
                    let labels = [label(operation), outcome, iam()];
                    self.calls.get_or_create_owned(&labels)
                })
            }),
            durations: Operation::ALL.map(|operation| {
                let labels = [label(operation), iam()];
                self.durations.get_or_create_owned(&labels)
            }),
            circuits: Operation::ALL.map(|operation| {
                let labels = [label(operation), iam()];
                self.circuits.get_or_create_owned(&labels)
            }),
            clock_offset: self.clock_offset("iam", name),
        }
    }

    /// The gauge of a peer, with the name of the IAM if it is one.
    pub(super) fn clock_offset(&self, peer: &str, iam: &str) -> ClockOffset {
        let labels = [("peer", peer.to_owned()), ("iam", iam.to_owned())];
        self.clock_offsets.get_or_create_owned(&labels)
    }

    /// Sets the number of unfinished logouts at the IAM with this name.
    pub fn unfinished_logouts(&self, name: &str, count: usize) {
        let gauge = (self.unfinished_logouts).get_or_create_owned(&[("iam", name.to_owned())]);
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// The metrics of one IAM.
#[derive(Debug)]
pub(super) struct IamMetrics {
    pub(super) name: Box<str>,
    exchanges: Box<[Counter]>,
    ended_logouts: Box<[Counter]>,
    calls: [[Counter; OUTCOMES.len()]; Operation::ALL.len()],
    durations: [Histogram; Operation::ALL.len()],
    circuits: [Gauge; Operation::ALL.len()],
    clock_offset: ClockOffset,
}

impl IamMetrics {
    /// Counts an exchange with data of this source.
    pub(super) fn exchanged(&self, source: Source) {
        if let Some(counter) = self.exchanges.get(source as usize) {
            counter.inc();
        }
    }

    /// Counts a logout that is no longer repeated.
    pub(super) fn logout_ended(&self, outcome: UpstreamLogoutOutcome) {
        if let Some(counter) = self.ended_logouts.get(outcome as usize) {
            counter.inc();
        }
    }

    /// Counts a call.
    pub(super) fn called(
        &self,
        operation: Operation,
        result: Result<(), &IamError>,
        took: Duration,
    ) {
        let outcome = result.err().map_or("ok", IamError::kind);
        let outcome = OUTCOMES.iter().position(|known| *known == outcome);
        let calls = self.calls.get(operation as usize);
        let counter = calls.zip(outcome).and_then(|(calls, at)| calls.get(at));
        if let Some(counter) = counter {
            counter.inc();
        }
        if let Some(duration) = self.durations.get(operation as usize) {
            duration.observe(took.as_secs_f64());
        }
    }

    /// Sets the offset of the IAM's clock, in seconds.
    pub(super) fn clock(&self, offset: f64) {
        self.clock_offset.set(offset);
    }

    /// Sets the state of an operation's circuit breaker.
    pub(super) fn circuit(&self, operation: Operation, circuit: Circuit) {
        let level = match circuit {
            Circuit::Closed => 0,
            Circuit::HalfOpen => 1,
            Circuit::Open => 2,
        };
        if let Some(gauge) = self.circuits.get(operation as usize) {
            gauge.set(level);
        }
    }
}
