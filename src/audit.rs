//! The audit log: one JSON line for each login, logout, revocation, operator call and change of keys
//! or files. `docs/audit.md` describes the lines.

mod line;
mod output;
mod refusals;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use iam_adapters::Clock;
use thiserror::Error;
use tokio::time::{sleep, timeout};

use crate::config::{AuditDestination, AuditSettings};
use crate::telemetry::json_lines::{Flusher, LineWriter};
use crate::telemetry::metrics::Metrics;
use auth_gateway_core::event::{Event, Subscriber};
use auth_gateway_core::identifiers::IdentifierKey;

pub(crate) use output::check;

use line::{Identifiers, Line};
use output::{Destination, Output, Progress};
use refusals::Refusals;

/// How long an operation waits for its line with `audit.fail_closed`. Longer than a slow disk needs.
const WRITE_DEADLINE: Duration = Duration::from_secs(2);

/// The audit log cannot be written, and `audit.fail_closed` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the audit log cannot be written")]
pub struct Unwritable;

/// The audit log of one process.
#[derive(derive_more::Debug)]
#[debug("AuditLog {{ destination: {destination:?}, .. }}")]
pub struct AuditLog {
    identifiers: Identifiers,
    /// `None`: the log is off.
    destination: Option<Destination>,
    /// Whether no operation takes effect without its line. Not if the log is off.
    fail_closed: bool,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    progress: Arc<Progress>,
    refusals: Refusals,
    writer: OnceLock<LineWriter>,
}

impl AuditLog {
    /// The log of the settings. It takes no line before [`Self::open`].
    pub(crate) fn new(
        settings: &AuditSettings,
        key: Arc<IdentifierKey>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let destination = match (settings.destination, &settings.file) {
            (AuditDestination::Stdout, _) => Some(Destination::Stdout),
            (AuditDestination::File, Some(path)) => Some(Destination::File(path.clone())),
            (AuditDestination::None, _) | (AuditDestination::File, None) => None,
        };
        Self {
            identifiers: Identifiers {
                key,
                with_client_addresses: settings.client_addresses,
                with_email_addresses: settings.email_addresses,
            },
            fail_closed: settings.fail_closed && destination.is_some(),
            destination,
            clock,
            progress: Arc::new(Progress::new(Arc::clone(&metrics))),
            metrics,
            refusals: Refusals::default(),
            writer: OnceLock::new(),
        }
    }

    /// Opens the file, and starts the thread that writes. `None` if the log is off.
    /// The error names the file.
    pub(crate) fn open(&self) -> anyhow::Result<Option<Flusher>> {
        let Some(destination) = &self.destination else {
            return Ok(None);
        };
        let output = Output::open(
            destination.clone(),
            self.fail_closed,
            Arc::clone(&self.clock),
            Arc::clone(&self.progress),
        )?;
        let lost = self.metrics.families.audit_lines_lost.clone();
        let (writer, flusher) = LineWriter::start("audit", output, lost)?;
        let _ = self.writer.set(writer);
        Ok(Some(flusher))
    }

    /// Writes one line for each client with the refusals since the last call that have no line of their own.
    pub(crate) fn write_sums(&self) {
        for sum in self.refusals.take() {
            self.push(&sum);
        }
    }

    /// Writes the sums again and again. Does not return.
    pub(crate) async fn keep_writing_sums(&self) {
        loop {
            sleep(refusals::INTERVAL).await;
            self.write_sums();
        }
    }

    /// Admits an operation that must not take effect without its line, if `audit.fail_closed` is set.
    /// Not if the last line could not be written.
    pub(crate) fn admit(&self) -> Result<AuditGate<'_>, Unwritable> {
        if self.fail_closed && self.progress.is_failing() {
            return Err(Unwritable);
        }
        Ok(self.gate())
    }

    fn gate(&self) -> AuditGate<'_> {
        let lost = &self.metrics.families.audit_lines_lost;
        AuditGate(self.fail_closed.then(|| (self, lost.get())))
    }

    /// Writes the line, or counts it for a [sum](Self::write_sums). Never waits.
    fn push(&self, line: &Line) {
        if self.refusals.is_written(line)
            && let Some(writer) = self.writer.get()
        {
            writer.push(&line.to_json(self.clock.now()), self.fail_closed);
        }
    }
}

/// Waits for the lines of an operation, with `audit.fail_closed`.
pub(crate) struct AuditGate<'a>(Option<(&'a AuditLog, u64)>);

impl AuditGate<'_> {
    /// Waits until all lines of events until now are on the disk, or were accepted by the reader of
    /// standard output. Fails if that takes too long, or if a line was lost since the operation was
    /// admitted. The lines may be written later.
    pub(crate) async fn written(self) -> Result<(), Unwritable> {
        let Some((log, lost_before)) = self.0 else {
            return Ok(());
        };
        let position = log.writer.get().ok_or(Unwritable)?.position();
        if log.metrics.families.audit_lines_lost.get() > lost_before {
            return Err(Unwritable);
        }
        timeout(WRITE_DEADLINE, log.progress.reaches(position))
            .await
            .map_err(|_| Unwritable)
    }
}

impl Subscriber for AuditLog {
    fn on_event(&self, event: &Event<'_>) {
        if self.destination.is_some()
            && let Some(line) = Line::of(event, &self.identifiers)
        {
            self.push(&line);
        }
    }
}

#[cfg(test)]
mod tests;
