//! The metrics of traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::register_counters;

/// The counters of ended spans.
#[derive(Debug, Clone, Default)]
pub struct SpanMetrics {
    /// The Collector accepted them.
    pub exported: Counter,
    /// They did not fit in the queue.
    pub dropped: Counter,
    /// The Collector did not respond, or rejected them.
    pub failed: Counter,
}

impl SpanMetrics {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let help = "Ended spans of sampled requests";
        let outcomes = ["exported", "dropped", "failed"];
        let [exported, dropped, failed] =
            register_counters(registry, "spans", help, "outcome", outcomes);
        Self {
            exported,
            dropped,
            failed,
        }
    }
}
