//! The expiry of the certificate of the public listener.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// A gauge that exists only if there is a certificate. 0: there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct CertificateExpiry(Arc<AtomicI64>);

impl CertificateExpiry {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let expiry = Self::default();
        registry.register_collector(Box::new(expiry.clone()));
        expiry
    }

    pub(super) fn set(&self, at: Option<i64>) {
        self.0.store(at.unwrap_or_default(), Ordering::Relaxed);
    }
}

impl Collector for CertificateExpiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let at = self.0.load(Ordering::Relaxed);
        if at == 0 {
            return Ok(());
        }
        let gauge = ConstGauge::new(at);
        let name = "certificate_expiry_timestamp";
        let help =
            "When the first certificate of the public listener's chain expires, in Unix time.";
        let unit = Some(&Unit::Seconds);
        gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
    }
}
