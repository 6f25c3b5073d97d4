//! Builds what traces requests from the settings.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::RandomIdGenerator;

use crate::config::TraceSettings;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::{Collector, SpanExporter, SpanQueue, Traces};
use auth_gateway_core::Random;

/// The traces of this process. The random numbers name it, if the settings do not.
pub(super) fn traces(
    settings: &TraceSettings,
    collector: Collector,
    metrics: &Arc<Metrics>,
    random: &dyn Random,
) -> (Arc<Traces>, SpanExporter) {
    let queue = SpanQueue::new(Arc::clone(metrics));
    let traces = Traces::new(
        settings.sample_ratio,
        RandomIdGenerator::default(),
        queue.clone(),
    );
    let instance = settings.service_instance_id.clone();
    let instance = instance.unwrap_or_else(|| {
        let mut id = [0; 16];
        // The attribute is zeros if the system has no random numbers; then no request succeeds either.
        let _ = random.fill(&mut id);
        format!("{:032x}", u128::from_be_bytes(id))
    });
    let resource = Resource::builder_empty().with_attributes([
        KeyValue::new("service.name", settings.service_name.clone()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", instance),
    ]);
    let exporter = SpanExporter::new(queue, collector, resource.build());
    (Arc::new(traces), exporter)
}
