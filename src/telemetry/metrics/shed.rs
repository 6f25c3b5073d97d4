//! The metrics of load shedding.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

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
        let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let help = "Refused requests, refused connections and closed idle connections under load";
        registry.register("shed", help, family.clone());
        let [behind, draining, full, idle] = ["behind", "draining", "full", "idle"]
            .map(|reason| family.get_or_create_owned(&[("reason", reason)]));
        Self {
            behind,
            draining,
            full,
            idle,
        }
    }
}
