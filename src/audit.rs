//! The audit log: one JSON line for each login, logout, revocation, operator call and change of keys
//! or files. `docs/audit.md` describes the lines.

mod event;
mod identifiers;
mod output;
mod refusals;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use iam_adapters::Clock;
use thiserror::Error;
use tokio::time::{sleep, timeout};

use crate::config::{AuditDestination, AuditSettings};
use crate::gateway::Observer;
use crate::gateway::identifiers::IdentifierKey;
use crate::gateway::session::SessionId;
use crate::gateway::upstream_logouts::Outcome as LogoutOutcome;
use crate::telemetry::json_lines::{Flusher, LineWriter};
use crate::telemetry::metrics::AuditMetrics;

pub use event::{Decision, EndedSession, Event, RefusalCounts, Request, RevokedSelection, SCHEMA};
pub use identifiers::{AccountId, ClientId, Identifiers};
pub use output::check;

use event::Line;
use output::{Destination, Output, Progress};
use refusals::Refusals;

/// How long an operation waits for its line with `audit.fail_closed`. Longer than a slow disk needs.
const WRITE_DEADLINE: Duration = Duration::from_secs(2);

/// The audit log cannot be written, and `audit.fail_closed` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the audit log cannot be written")]
pub struct Unwritable;

/// The audit log of one process.
pub struct AuditLog(Option<Enabled>);

struct Enabled {
    identifiers: Identifiers,
    destination: Destination,
    fail_closed: bool,
    clock: Arc<dyn Clock>,
    metrics: AuditMetrics,
    progress: Arc<Progress>,
    refusals: Refusals,
    writer: OnceLock<LineWriter>,
}

impl AuditLog {
    /// The log of the settings. It takes no line before [`Self::open`].
    #[must_use]
    pub fn new(
        settings: &AuditSettings,
        key: Arc<IdentifierKey>,
        clock: Arc<dyn Clock>,
        metrics: AuditMetrics,
    ) -> Self {
        let destination = match (settings.destination, &settings.file) {
            (AuditDestination::Stdout, _) => Destination::Stdout,
            (AuditDestination::File, Some(path)) => Destination::File(path.clone()),
            (AuditDestination::None, _) | (AuditDestination::File, None) => return Self(None),
        };
        let mut identifiers = Identifiers::new(key);
        identifiers.with_client_addresses = settings.client_addresses;
        identifiers.with_email_addresses = settings.email_addresses;
        Self(Some(Enabled {
            identifiers,
            destination,
            fail_closed: settings.fail_closed,
            clock,
            progress: Arc::new(Progress::new(metrics.clone())),
            metrics,
            refusals: Refusals::default(),
            writer: OnceLock::new(),
        }))
    }

    /// Opens the file, and starts the thread that writes. `None` if the log is off.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or no thread can be started. The message names the file.
    pub fn open(&self) -> anyhow::Result<Option<Flusher>> {
        let Some(log) = &self.0 else {
            return Ok(None);
        };
        let output = Output::open(
            log.destination.clone(),
            log.fail_closed,
            Arc::clone(&log.clock),
            Arc::clone(&log.progress),
        )?;
        let lost = log.metrics.lines_lost.clone();
        let (writer, flusher) = LineWriter::start("audit", output, lost)?;
        let _ = log.writer.set(writer);
        Ok(Some(flusher))
    }

    /// Writes the line of an event, which is built only if the log is on. Never waits. Refusals that no login limit
    /// bounds are [summed](Self::write_sums) from the second on.
    pub fn record(&self, event: impl FnOnce(&Identifiers) -> Event) {
        if let Some(log) = &self.0 {
            let _ = log.push(event);
        }
    }

    /// Writes one line for each client with the refusals since the last call that have no line of their own.
    pub fn write_sums(&self) {
        if let Some(log) = &self.0 {
            for sum in log.refusals.take() {
                let _ = log.write(&sum);
            }
        }
    }

    /// Writes the sums again and again. Does not return.
    pub async fn keep_writing_sums(&self) {
        loop {
            sleep(refusals::INTERVAL).await;
            self.write_sums();
        }
    }

    /// Refuses an operation before it begins, if the last line could not be written and
    /// `audit.fail_closed` is set.
    ///
    /// # Errors
    ///
    /// [`Unwritable`].
    pub fn admit(&self) -> Result<(), Unwritable> {
        match &self.0 {
            Some(log) if log.fail_closed && log.progress.is_failing() => Err(Unwritable),
            _ => Ok(()),
        }
    }

    /// As [`Self::record`]. With `audit.fail_closed` it waits until the line is on the disk, or was
    /// accepted by the reader of standard output.
    ///
    /// # Errors
    ///
    /// [`Unwritable`] if that takes too long. The line may be written later.
    pub async fn record_or_refuse(
        &self,
        event: impl FnOnce(&Identifiers) -> Event,
    ) -> Result<(), Unwritable> {
        let Some(log) = &self.0 else {
            return Ok(());
        };
        let position = log.push(event);
        if !log.fail_closed {
            return Ok(());
        }
        let written = log.progress.reaches(position.ok_or(Unwritable)?);
        timeout(WRITE_DEADLINE, written)
            .await
            .map_err(|_| Unwritable)
    }
}

impl Enabled {
    /// The number of bytes of all lines up to the end of this one, 0 if it is only counted; `None` if it
    /// was dropped.
    fn push(&self, event: impl FnOnce(&Identifiers) -> Event) -> Option<u64> {
        let event = event(&self.identifiers);
        match event.refusal() {
            Some(refusal) if !self.refusals.gets_line(&refusal) => Some(0),
            _ => self.write(&event),
        }
    }

    fn write(&self, event: &Event) -> Option<u64> {
        let line = Line::new(event, self.clock.now()).to_json();
        self.writer.get()?.push(&line, self.fail_closed)
    }
}

impl Observer for AuditLog {
    fn slow_rate_began(&self, email: &str, is_known_network: bool) {
        self.record(|ids| Event::SlowRate {
            account: ids.account(email),
            network: if is_known_network { "known" } else { "unknown" },
        });
    }

    fn logout_ended(&self, iam: &str, session_id: SessionId, outcome: LogoutOutcome) {
        self.record(|ids| Event::IamLogout {
            decision: Decision::of_logout(outcome),
            iam: iam.to_owned(),
            session: ids.session(session_id),
        });
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let destination = self.0.as_ref().map(|log| &log.destination);
        f.debug_struct("AuditLog")
            .field("destination", &destination)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
