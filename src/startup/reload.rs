//! Reads the keys, and the files that the settings name, again: periodically, and on SIGHUP.
//!
//! Nothing depends on notifications of the file system: network file systems send none, and a folder or a
//! link that is replaced is not the watched one.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::name::Name as _;
use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::dependencies::{Reloadable, ServiceDependencies};
use super::tls::ServerCertificate;
use super::use_certificate;
use crate::config::{InvalidSettings, NamedFiles, Settings};
use crate::health::{Health, Reason, ReasonCode};
use auth_gateway_core::Gateway;
use auth_gateway_core::event::Event;
use auth_gateway_core::gateway_keys::IDENTIFIERS;
use auth_gateway_core::keys::Reloaded;

/// Reads files again, and replaces what the running service has built of them.
pub(super) struct FilePoller {
    gateway: Arc<Gateway>,
    health: Arc<Health>,
    parts: ServiceDependencies,
    files: NamedFiles,
    interval: Duration,
    /// `None`: the system cannot report signals.
    hangups: Option<Signal>,
    /// Whether the files could not be used when they were last read. The reason can be outside them: a folder that cannot be
    /// listed, or a certificate that is not valid yet.
    has_failed: bool,
    /// The reasons that were logged and are not resolved.
    logged: Vec<Reason>,
}

impl FilePoller {
    /// From now on, no SIGHUP is missed. Call it in a running actix system.
    pub(super) fn new(
        settings: &Settings,
        parts: &ServiceDependencies,
        gateway: &Arc<Gateway>,
        health: &Arc<Health>,
    ) -> Self {
        Self {
            gateway: Arc::clone(gateway),
            health: Arc::clone(health),
            parts: parts.clone(),
            files: settings.files.clone(),
            interval: settings.keys.reload_interval,
            hangups: hangups(),
            has_failed: false,
            logged: Vec::new(),
        }
    }

    /// Emits the events of the keys in use.
    pub(super) fn report_keys(&self) {
        let kids = self.gateway.replica.keys.kids(self.parts.clock.now());
        for of in kids.iter().filter(|of| of.purpose != IDENTIFIERS) {
            self.gateway.emit(&Event::Keys {
                result: Ok((of.purpose, &of.stored)),
            });
        }
    }

    /// Does not return.
    pub(super) async fn run(mut self) {
        let interval = self.interval;
        let mut hangups = self.hangups.take();
        let poller = Arc::new(Mutex::new(self));
        let mut forced = false;
        loop {
            let poller = Arc::clone(&poller);
            // Reading a file blocks, on a network file system for long.
            let reading = tokio::task::spawn_blocking(move || poller.lock().poll(forced));
            // A panic was logged.
            let _ = reading.await;
            forced = tokio::select! {
                () = tokio::time::sleep(interval) => false,
                _ = async { hangups.as_mut()?.recv().await }, if hangups.is_some() => true,
            };
        }
    }

    /// Reads the keys, and the files if they changed, if they could not be used, or if `forced`.
    fn poll(&mut self, forced: bool) {
        for (purpose, reloaded) in self.gateway.replica.keys.reload(self.parts.clock.now()) {
            log_reload(purpose, &reloaded);
            self.gateway.emit(&Event::Keys {
                result: Ok((purpose, &reloaded.kids)),
            });
        }
        if let Some(files) = self.reload_files(forced) {
            self.report(files);
        }
        self.log_warnings();
    }

    /// Reads the files again if they changed, if they could not be used, or if `forced`, and replaces what was built
    /// of them; `None`: they were not read. What cannot be used is not replaced, and neither is the rest, so that a
    /// certificate and its key, or a client and its secret, never come from different times. A valid
    /// certificate is not replaced by one that has expired or is not valid yet.
    fn reload_files(&mut self, forced: bool) -> Option<Result<(), InvalidSettings>> {
        let source = Arc::clone(self.parts.source.as_ref()?);
        let files = self.files.again();
        if files == self.files && !forced && !self.has_failed {
            return None;
        }
        self.files = files;
        let now = self.parts.clock.now();
        let loaded = source.load_with(|settings, _, problems| {
            let parts = &self.parts;
            let built = Reloadable::build(settings, &parts.clock, &parts.iams, problems)?;
            let problem = |tls: Option<&Arc<ServerCertificate>>| tls?.problem(now);
            if problem(parts.tls.as_ref()).is_none()
                && let Some(problem) = problem(built.tls.as_ref())
            {
                problems.add("http.tls.certificate_file", problem);
            }
            Some(built)
        });
        self.has_failed = loaded.is_err();
        Some(loaded.map(|(settings, reloadable)| {
            self.files = settings.files;
            self.replace(reloadable);
        }))
    }

    fn replace(&self, new: Reloadable) {
        let parts = &self.parts;
        for (iam, new) in parts.iams.iter().zip(new.iams) {
            iam.store(Arc::new(new));
        }
        if let (Some(current), Some(new)) = (&parts.permission_source, new.permission_source) {
            current.store(new);
        }
        if let (Some(current), Some(new)) = (&parts.tls, &new.tls) {
            current.replace(new);
            use_certificate(Some(current), &parts.metrics, &self.health);
        }
        if let (Some((current, _)), Some(new)) = (&parts.replication, &new.redis) {
            current.replace(new);
        }
        if let (Some(current), Some(new)) = (&parts.operator_token, new.operator_token) {
            current.store(new);
        }
        if let (Some((_, current)), Some(new)) = (&parts.traces, new.collector) {
            current.replace(new);
        }
    }

    fn report(&self, files: Result<(), InvalidSettings>) {
        let invalid = files.err();
        if invalid.is_none() {
            tracing::info!("the files that the settings name were read again");
            self.gateway.emit(&Event::Files { result: Ok(()) });
        }
        self.health.files(invalid.map(|invalid| {
            let message = format!(
                "in use are those from before: {}",
                invalid.problems.join("; ")
            );
            Reason::new(ReasonCode::FilesUnreadable, message)
        }));
    }

    /// Logs the differences to the reasons that were logged before.
    fn log_warnings(&mut self) {
        let now = self.parts.clock.now();
        let of_keys = self.gateway.replica.keys.warnings(now);
        let reasons = of_keys.into_iter().map(Reason::from);
        let reasons = reasons.chain(self.health.files_reason());
        let reasons: Vec<_> = reasons.chain(self.health.certificate_reason(now)).collect();
        for new in reasons
            .iter()
            .filter(|reason| !self.logged.contains(reason))
        {
            tracing::warn!(code = new.code.name(), "{}", new.message);
            let detail = &*new.message;
            match new.code {
                ReasonCode::KeysUnreadable => self.gateway.emit(&Event::Keys {
                    result: Err(detail),
                }),
                ReasonCode::FilesUnreadable => self.gateway.emit(&Event::Files {
                    result: Err(detail),
                }),
                _ => {}
            }
        }
        for old in self
            .logged
            .iter()
            .filter(|reason| !reasons.contains(reason))
        {
            tracing::info!(code = old.code.name(), "resolved: {}", old.message);
        }
        self.logged = reasons;
    }
}

fn hangups() -> Option<Signal> {
    signal(SignalKind::hangup())
        .inspect_err(|error| tracing::warn!(%error, "SIGHUP is not handled"))
        .ok()
}

fn log_reload(purpose: &'static str, reloaded: &Reloaded) {
    tracing::info!(purpose, kids = reloaded.kids.join(" "), "keys reloaded");
    for (kid, begins) in &reloaded.delayed {
        tracing::warn!(
            purpose,
            kid,
            from = %format_args!("{begins:.0}"),
            "delaying use of this key until verifiers can have fetched it"
        );
    }
}

#[cfg(test)]
mod tests;
