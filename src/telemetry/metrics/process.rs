//! The metrics of the process, by the names that all Prometheus clients use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, page_size, ticks_per_second};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustix::system::sysinfo;

use super::registered;

families! {
    /// What `/proc` has of this process at each scrape.
    ProcessFamilies {
        /// User and system CPU time
        cpu: Counter<f64, AtomicU64> as Seconds,
        /// The most open file descriptors
        max_fds: Gauge<f64, AtomicU64>,
        /// Open file descriptors
        open_fds: Gauge<u64, AtomicU64>,
        /// Resident memory
        resident_memory: Gauge<u64, AtomicU64> as Bytes,
        /// Start of the process, in Unix time
        start_time: Gauge<f64, AtomicU64> as Seconds,
        /// Virtual memory
        virtual_memory: Gauge<u64, AtomicU64> as Bytes,
    }
}

impl ProcessFamilies {
    /// `None`: the sandbox has no `/proc`.
    #[expect(
        clippy::cast_precision_loss,
        reason = "Prometheus has only such numbers"
    )]
    pub(super) fn of_this_process(registry: &mut Registry) -> Option<Self> {
        let stat = Process::myself().and_then(|process| process.stat()).ok()?;
        let families = Self::registered_in(registry.sub_registry_with_prefix("process"));
        // Without the time of the boot in `/proc/stat`, which `ProcSubset=pid` of systemd hides. Once,
        // because a correction of the clock would look like a restart. The uptime is in whole seconds.
        let age = sysinfo().uptime as f64 - seconds_of_ticks(stat.starttime);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        families
            .start_time
            .set(now.unwrap_or_default().as_secs_f64() - age);
        Some(families)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "Prometheus has only such numbers"
    )]
    pub(super) fn update(&self) -> ProcResult<()> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let used = seconds_of_ticks(stat.utime + stat.stime).to_bits();
        self.cpu.inner().store(used, Ordering::Relaxed);
        self.max_fds
            .set(match process.limits()?.max_open_files.soft_limit {
                LimitValue::Value(max) => max as f64,
                LimitValue::Unlimited => f64::INFINITY,
            });
        self.open_fds.set(process.fd_count()? as u64);
        self.resident_memory.set(stat.rss * page_size());
        self.virtual_memory.set(stat.vsize);
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus has only such numbers"
)]
fn seconds_of_ticks(ticks: u64) -> f64 {
    ticks as f64 / ticks_per_second() as f64
}
