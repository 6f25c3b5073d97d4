//! The metrics of calls to the IAM.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::{Circuit, Operation};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Histograms, Labels, histograms};

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

/// The metrics of calls to the IAM.
#[derive(Debug)]
pub struct IamMetrics {
    calls: Family<Labels<2>, Counter>,
    durations: Histograms,
    circuits: Family<Labels<1>, Gauge>,
}

impl IamMetrics {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let metrics = Self {
            calls: Family::default(),
            durations: histograms(),
            circuits: Family::default(),
        };
        let help = "Calls to the IAM, by operation and outcome";
        registry.register("iam_calls", help, metrics.calls.clone());
        let help = "Duration of calls to the IAM, retries included";
        let durations = metrics.durations.clone();
        registry.register_with_unit("iam_call_duration", help, Unit::Seconds, durations);
        let help =
            "Circuit breaker of calls to the IAM, by operation: 0 closed, 1 half-open, 2 open";
        registry.register("iam_circuit", help, metrics.circuits.clone());
        for operation in Operation::ALL {
            let label = ("operation", operation.name());
            let _ = metrics.durations.get_or_create(&[label]);
            metrics.circuit(operation, Circuit::Closed);
            for outcome in OUTCOMES {
                let labels = [label, ("outcome", outcome)];
                let _ = metrics.calls.get_or_create(&labels);
            }
        }
        metrics
    }

    /// Counts a call.
    pub fn called(&self, operation: Operation, result: Result<(), &IamError>, took: Duration) {
        let outcome = result.err().map_or("ok", IamError::kind);
        let operation = ("operation", operation.name());
        let labels = [operation, ("outcome", outcome)];
        self.calls.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&[operation])
            .observe(took.as_secs_f64());
    }

    /// Sets the state of an operation's circuit breaker.
    pub fn circuit(&self, operation: Operation, circuit: Circuit) {
        let level = match circuit {
            Circuit::Closed => 0,
            Circuit::HalfOpen => 1,
            Circuit::Open => 2,
        };
        let labels = [("operation", operation.name())];
        self.circuits.get_or_create(&labels).set(level);
    }
}
