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
    pub(super) fn of_this_process(registry: &mut Registry) -> Option<Self> {
        let is_readable = Process::myself().is_ok();
        is_readable.then(|| Self::registered_in(registry.sub_registry_with_prefix("process")))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "Prometheus has only such numbers"
    )]
    #[expect(
        clippy::disallowed_methods,
        reason = "the uptime is one of the system, and so is the time"
    )]
    pub(super) fn update(&self) -> ProcResult<()> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second() as f64;
        let used = seconds(stat.utime + stat.stime).to_bits();
        self.cpu.inner().store(used, Ordering::Relaxed);
        self.max_fds
            .set(match process.limits()?.max_open_files.soft_limit {
                LimitValue::Value(max) => max as f64,
                LimitValue::Unlimited => f64::INFINITY,
            });
        self.open_fds.set(process.fd_count()? as u64);
        self.resident_memory.set(stat.rss * page_size());
        self.virtual_memory.set(stat.vsize);
        // Once, because a correction of the clock would look like a restart.
        if self.start_time.get() <= 0.0 {
            // `ProcSubset=pid` of systemd hides the time of the boot in `/proc/stat`. The uptime is in whole seconds.
            let age = sysinfo().uptime as f64 - seconds(stat.starttime);
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default().as_secs_f64();
            self.start_time.set(now - age);
        }
        Ok(())
    }
}
