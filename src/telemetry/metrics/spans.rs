//! The metrics of traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

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
        let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let help = "Ended spans of sampled requests";
        registry.register("spans", help, family.clone());
        let [exported, dropped, failed] = ["exported", "dropped", "failed"]
            .map(|outcome| family.get_or_create_owned(&[("outcome", outcome)]));
        Self {
            exported,
            dropped,
            failed,
        }
    }
}
