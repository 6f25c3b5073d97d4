//! What was parted with because there was too much of it.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What was parted with because there was too much of it.
#[derive(Debug, Clone)]
pub struct Shed {
    /// Requests refused because the worker was too far behind.
    pub behind: Counter,
    /// Connections refused because there were too many, and none to part with.
    pub full: Counter,
    /// Connections that made room: their clients had let the gateway wait the longest.
    pub idle: Counter,
}

impl Shed {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let help = "Requests refused by a worker that is behind, connections refused because all \
                    are busy, and idle connections closed to admit others";
        registry.register("shed", help, family.clone());
        let [behind, full, idle] = ["behind", "full", "idle"]
            .map(|reason| family.get_or_create_owned(&[("reason", reason)]));
        Self { behind, full, idle }
    }
}
