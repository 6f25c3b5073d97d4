//! Reads the keys, and the files that the settings name, again when they change, and on SIGHUP.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iam_adapters::{Clock, Moment, Replaceable, ResilientAdapter};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use secrecy::SecretString;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::parts::{Parts, Reloadable};
use super::tls::ServerCertificate;
use super::use_certificate;
use super::watched_names::WatchedNames;
use crate::audit::{AuditLog, Decision, Event};
use crate::config::{InvalidSettings, NamedFiles, Settings, Source};
use crate::gateway::keys::{Keys, Reloaded};
use crate::health::{Health, Reason, ReasonCode};
use crate::replication::Redis;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::SpanExporter;

/// The pause between a change and reading a folder, because several changes often come together.
const SETTLING: Duration = Duration::from_millis(100);

/// The parts of a running service that are replaced when a file changes.
pub(super) struct Running {
    source: Arc<Source>,
    files: NamedFiles,
    adapters: Vec<Arc<ResilientAdapter>>,
    tls: Option<Arc<ServerCertificate>>,
    redis: Option<Redis>,
    operator_token: Option<Arc<Replaceable<SecretString>>>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    span_exporter: Option<SpanExporter>,
    clock: Arc<dyn Clock>,
    /// Whether the certificate in its file is not used because of the time. It may be valid later.
    waits: bool,
}

impl Running {
    /// `None` if the settings cannot be read again.
    pub(super) fn new(
        settings: &Settings,
        parts: &Parts,
        adapters: Vec<Arc<ResilientAdapter>>,
        health: &Arc<Health>,
    ) -> Option<Self> {
        Some(Self {
            source: Arc::clone(parts.source.as_ref()?),
            files: settings.files.clone(),
            adapters,
            tls: parts.tls.clone(),
            redis: parts.redis.clone(),
            operator_token: parts.operator_token.clone(),
            metrics: Arc::clone(&parts.metrics),
            health: Arc::clone(health),
            span_exporter: parts.traces.as_ref().map(|(_, exporter)| exporter.clone()),
            clock: Arc::clone(&parts.clock),
            waits: false,
        })
    }

    /// Reads the files again if they changed, or if `forced`, and replaces what was built of them;
    /// `None`: they did not. What cannot be used is not replaced, and neither is the rest, so that a
    /// certificate and its key, or a client and its secret, never come from different times. A valid
    /// certificate is not replaced by one that has expired or is not valid yet.
    fn reload(&mut self, forced: bool) -> Option<Result<(), InvalidSettings>> {
        let files = self.files.again();
        if files.are_as(&self.files) && !forced && !self.waits {
            return None;
        }
        self.files = files;
        self.waits = false;
        let now = self.clock.now();
        let loaded = self.source.load_with(|settings, problems| {
            let built = Reloadable::build(settings, &self.clock, problems)?;
            if problem(self.tls.as_deref(), now).is_none()
                && let Some(problem) = problem(built.tls.as_deref(), now)
            {
                self.waits = true;
                problems.add("http.tls.certificate_file", problem);
            }
            Some(built)
        });
        Some(loaded.map(|(settings, reloadable)| {
            self.files = settings.files;
            self.replace(reloadable);
        }))
    }

    fn replace(&self, new: Reloadable) {
        for (adapter, replacement) in self.adapters.iter().zip(new.iams) {
            adapter.replace(replacement, new.permission_source.clone());
        }
        if let (Some(current), Some(new)) = (&self.tls, &new.tls) {
            current.replace(new);
            use_certificate(Some(current), &self.metrics, &self.health);
        }
        if let (Some(current), Some(new)) = (&self.redis, &new.redis) {
            current.replace(new);
        }
        if let (Some(current), Some(new)) = (&self.operator_token, new.operator_token) {
            current.replace(Arc::new(new));
        }
        if let (Some(current), Some(new)) = (&self.span_exporter, new.collector) {
            current.replace(new);
        }
    }
}

/// Reads keys and files when the system reports a change, on SIGHUP, and periodically: network file
/// systems report none, and a folder that was replaced is not the watched one.
pub(super) struct FileWatcher {
    keys: Arc<Keys>,
    key_folders: Vec<PathBuf>,
    running: Option<Arc<Mutex<Running>>>,
    names: Arc<Mutex<WatchedNames>>,
    health: Arc<Health>,
    audit: Arc<AuditLog>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    hangups: Option<Signal>,
}

impl FileWatcher {
    /// From now on, no SIGHUP is missed. Call it in a running actix system.
    pub(super) fn new(
        settings: &Settings,
        parts: &Parts,
        running: Option<Running>,
        health: Arc<Health>,
    ) -> Self {
        let folders = [&settings.keys.signing_dir, &settings.keys.sealing_dir];
        Self {
            keys: Arc::clone(&parts.keys),
            key_folders: folders.into_iter().flatten().cloned().collect(),
            running: running.map(|running| Arc::new(Mutex::new(running))),
            names: Arc::default(),
            health,
            audit: Arc::clone(&parts.audit),
            clock: Arc::clone(&parts.clock),
            interval: settings.keys.reload_interval,
            hangups: hangups(),
        }
    }

    /// Writes the lines of the keys in use to the audit log.
    pub(super) fn record_keys(&self) {
        for (purpose, kids) in self.keys.kids() {
            self.audit.record(|_| keys_in_use(purpose, kids));
        }
    }

    /// Does not return.
    pub(super) async fn run(mut self) {
        let changed = Arc::new(Notify::new());
        let mut watcher = None;
        let mut logged = Vec::new();
        let mut forced = false;
        loop {
            let next_watcher = watcher.or_else(|| new_watcher(&self.names, &changed));
            watcher = self.reload(next_watcher, forced).await;
            self.log_warnings(&mut logged);
            forced = tokio::select! {
                () = changed.notified() => false,
                () = tokio::time::sleep(self.interval) => false,
                () = next_hangup(&mut self.hangups) => true,
            };
            tokio::time::sleep(SETTLING).await;
        }
    }

    async fn reload(
        &self,
        mut watcher: Option<RecommendedWatcher>,
        forced: bool,
    ) -> Option<RecommendedWatcher> {
        let (keys, now) = (Arc::clone(&self.keys), self.clock.now());
        let audit = Arc::clone(&self.audit);
        let names = Arc::clone(&self.names);
        let (key_folders, files) = (self.key_folders.clone(), self.files());
        let running = self.running.clone();
        // Reading a file blocks, on a network file system for long.
        let reloading = tokio::task::spawn_blocking(move || {
            // Each time, because a folder or a link may have been replaced. Before they are read, so that
            // no later change is missed.
            *locked(&names) = WatchedNames::find(&key_folders, &files);
            if let Some(watcher) = &mut watcher {
                let of_files = files.iter().filter_map(|file| file.parent());
                let folders = key_folders.iter().map(PathBuf::as_path).chain(of_files);
                for folder in folders.collect::<BTreeSet<_>>() {
                    watch(watcher, folder);
                }
            }
            for (purpose, reloaded) in keys.reload(now) {
                log_reload(purpose, &reloaded);
                audit.record(|_| keys_in_use(purpose, reloaded.kids));
            }
            let files = running.and_then(|running| locked(&running).reload(forced));
            (watcher, files)
        });
        // A panic was logged, and dropped the watcher. The next reload makes another one.
        let (watcher, files) = reloading.await.ok()?;
        if let Some(files) = files {
            self.report(files);
        }
        watcher
    }

    /// The files that the settings name.
    fn files(&self) -> Vec<PathBuf> {
        let running = self.running.as_ref();
        running.map_or_else(Vec::new, |running| locked(running).files.paths().to_vec())
    }

    fn report(&self, files: Result<(), InvalidSettings>) {
        let invalid = files.err();
        if invalid.is_none() {
            tracing::info!("the files that the settings name were read again");
            self.audit.record(|_| Event::Files {
                decision: Decision::SUCCESS,
                detail: None,
            });
        }
        self.health.files(invalid.map(|invalid| {
            let message = format!(
                "in use are those from before: {}",
                invalid.problems.join("; ")
            );
            Reason::new(ReasonCode::FilesUnreadable, message)
        }));
    }

    /// Logs the differences to the reasons that are in `logged`.
    fn log_warnings(&self, logged: &mut Vec<Reason>) {
        let now = self.clock.now();
        let reasons = self.keys.warnings(now).into_iter().map(Reason::from);
        let reasons = reasons.chain(self.health.files_reason());
        let reasons: Vec<_> = reasons.chain(self.health.certificate_reason(now)).collect();
        for new in reasons.iter().filter(|reason| !logged.contains(reason)) {
            tracing::warn!(code = new.code.name(), "{}", new.message);
            self.record_unreadable(new);
        }
        for old in logged.iter().filter(|reason| !reasons.contains(reason)) {
            tracing::info!(code = old.code.name(), "resolved: {}", old.message);
        }
        *logged = reasons;
    }

    fn record_unreadable(&self, reason: &Reason) {
        let (decision, detail) = (Decision::UNREADABLE, || Some(reason.message.clone()));
        match reason.code {
            ReasonCode::KeysUnreadable => self.audit.record(|_| Event::Keys {
                decision,
                purpose: None,
                kids: Vec::new(),
                detail: detail(),
            }),
            ReasonCode::FilesUnreadable => self.audit.record(|_| Event::Files {
                decision,
                detail: detail(),
            }),
            _ => {}
        }
    }
}

/// Why clients refuse this certificate now.
fn problem(certificate: Option<&ServerCertificate>, now: Moment) -> Option<String> {
    certificate?.validity()?.problem(now)
}

fn keys_in_use(purpose: &'static str, kids: Vec<String>) -> Event {
    Event::Keys {
        decision: Decision::SUCCESS,
        purpose: Some(purpose),
        kids,
        detail: None,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` if the system cannot report signals.
fn hangups() -> Option<Signal> {
    signal(SignalKind::hangup())
        .inspect_err(|error| tracing::warn!(%error, "SIGHUP is not handled"))
        .ok()
}

async fn next_hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}

fn watch(watcher: &mut RecommendedWatcher, folder: &Path) {
    if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
        tracing::debug!(folder = %folder.display(), error = %error, "the folder is not watched");
    }
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

/// Notifies `changed` when something with one of the names changes in a watched folder. `None` if the system has no more
/// watchers; the folders are read periodically all the same.
fn new_watcher(
    names: &Arc<Mutex<WatchedNames>>,
    changed: &Arc<Notify>,
) -> Option<RecommendedWatcher> {
    let (names, changed) = (Arc::clone(names), Arc::clone(changed));
    let on_event = move |event| {
        if locked(&names).is_change(&event) {
            changed.notify_one();
        }
    };
    let watcher = notify::recommended_watcher(on_event);
    watcher
        .inspect_err(|error| tracing::debug!(error = %error, "folders are not watched"))
        .ok()
}
