//! The metrics of load shedding.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::register_counters;

/// The counters of load shedding.
#[derive(Debug, Clone)]
pub struct ShedMetrics {
    /// Requests refused because they had waited too long for their worker.
    pub behind: Counter,
    /// Requests refused because the gateway stops.
    pub draining: Counter,
    /// Connections refused because the limit was reached and none was idle.
    pub full: Counter,
    /// Idle connections closed to admit others.
    pub idle: Counter,
}

impl ShedMetrics {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let help = "Refused requests, refused connections and closed idle connections under load";
        let reasons = ["behind", "draining", "full", "idle"];
        let [behind, draining, full, idle] =
            register_counters(registry, "shed", help, "reason", reasons);
        Self {
            behind,
            draining,
            full,
            idle,
        }
    }
}
