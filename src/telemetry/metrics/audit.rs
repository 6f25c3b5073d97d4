//! The metrics of the audit log.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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
        let metrics = Self::default();
        let help = "Lines written to the audit log";
        registry.register("audit_lines", help, metrics.lines.clone());
        let help = "Lines of the audit log lost because it could not be written";
        registry.register("audit_lines_lost", help, metrics.lines_lost.clone());
        let help = "1 while the audit log cannot be written";
        registry.register("audit_unwritable", help, metrics.unwritable.clone());
        metrics
    }
}
