//! The metrics of the audit log.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::register;

/// The metrics of the audit log.
#[derive(Debug, Clone, Default)]
pub struct AuditMetrics {
    /// Lines that were written.
    pub lines: Counter,
    /// Lines that were not, and never will be.
    pub lines_lost: Counter,
    /// Whether the last attempt to write failed.
    pub unwritable: Gauge,
}

impl AuditMetrics {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let help = "Lines written to the audit log";
        let lines = register(registry, "audit_lines", help);
        let help = "Lines of the audit log lost because it could not be written";
        let lines_lost = register(registry, "audit_lines_lost", help);
        let help = "1 while the audit log cannot be written";
        let unwritable = register(registry, "audit_unwritable", help);
        Self {
            lines,
            lines_lost,
            unwritable,
        }
    }
}
