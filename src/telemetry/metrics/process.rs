//! The metrics of the process, by the names that all Prometheus clients use.

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, boot_time_secs, page_size, ticks_per_second};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Reads `/proc` at each scrape.
#[derive(Debug)]
pub(super) struct ProcessCollector;

struct ProcessUsage {
    cpu_seconds: f64,
    start_time: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_fds: u64,
    max_fds: f64,
}

impl ProcessUsage {
    #[expect(
        clippy::cast_precision_loss,
        reason = "Prometheus has only such numbers"
    )]
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second() as f64;
        Ok(Self {
            cpu_seconds: seconds(stat.utime + stat.stime),
            start_time: boot_time_secs()? as f64 + seconds(stat.starttime),
            resident_bytes: stat.rss * page_size(),
            virtual_bytes: stat.vsize,
            open_fds: process.fd_count()? as u64,
            max_fds: match process.limits()?.max_open_files.soft_limit {
                LimitValue::Value(max) => max as f64,
                LimitValue::Unlimited => f64::INFINITY,
            },
        })
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Some sandboxes have no /proc.
        let Ok(usage) = ProcessUsage::read() else {
            return Ok(());
        };
        let mut add = |name, unit: Option<Unit>, help, metric: &dyn EncodeMetric| {
            let kind = metric.metric_type();
            metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), kind)?)
        };
        let gauge = |value: u64| ConstGauge::new(value);
        add(
            "process_cpu",
            Some(Unit::Seconds),
            "User and system CPU time.",
            &ConstCounter::new(usage.cpu_seconds),
        )?;
        add(
            "process_start_time",
            Some(Unit::Seconds),
            "Start of the process, in Unix time.",
            &ConstGauge::new(usage.start_time),
        )?;
        add(
            "process_resident_memory",
            Some(Unit::Bytes),
            "Resident memory.",
            &gauge(usage.resident_bytes),
        )?;
        add(
            "process_virtual_memory",
            Some(Unit::Bytes),
            "Virtual memory.",
            &gauge(usage.virtual_bytes),
        )?;
        add(
            "process_open_fds",
            None,
            "Open file descriptors.",
            &gauge(usage.open_fds),
        )?;
        add(
            "process_max_fds",
            None,
            "The most open file descriptors.",
            &ConstGauge::new(usage.max_fds),
        )
    }
}
