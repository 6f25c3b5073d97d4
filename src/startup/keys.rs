//! Reads the keys at start, and again when their folders change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{Clock, Moment};
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use crate::config::{Problems, Settings};
use crate::gateway::keys::{KeyError, KeyStore, Keys, Reloaded, StoredKey};
use crate::health::Reason;

/// The pause between a change and reading a folder, because several changes often come together.
const SETTLING: Duration = Duration::from_millis(100);

/// Reads the folders of the settings. For a purpose without a folder, a key is generated; the settings
/// were checked for whether that is allowed.
pub(super) fn load(settings: &Settings, now: Moment, problems: &mut Problems) -> Option<Keys> {
    let (signing, sealing) = (&settings.keys.signing_dir, &settings.keys.sealing_dir);
    let max_age = settings.keys.jwks_max_age;
    let signing = open(signing.as_ref(), now, max_age);
    let sealing = open(sealing.as_ref(), now, max_age);
    for (setting, error) in [
        ("keys.signing_dir", signing.as_ref().err()),
        ("keys.sealing_dir", sealing.as_ref().err()),
    ] {
        for error in error.into_iter().flat_map(KeyError::each) {
            problems.add(setting, error.to_string());
        }
    }
    let (signing, sealing) = (signing.ok()?, sealing.ok()?);
    match Keys::ephemeral(now) {
        Ok(ephemeral) => Some(Keys {
            signing: signing.unwrap_or(ephemeral.signing),
            sealing: sealing.unwrap_or(ephemeral.sealing),
        }),
        Err(error) => {
            problems.add("keys", error.to_string());
            None
        }
    }
}

/// `None` if no folder is set.
fn open<K: StoredKey>(
    folder: Option<&PathBuf>,
    now: Moment,
    max_age: Duration,
) -> Result<Option<KeyStore<K>>, KeyError> {
    let opened = folder.map(|folder| KeyStore::open(folder.clone(), now, max_age));
    opened.transpose()
}

/// Reads the folders when the system reports a change, and periodically: network file systems report
/// none, and a folder that was replaced is not the watched one.
pub(super) struct KeyFolderWatcher {
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    folders: Vec<PathBuf>,
    interval: Duration,
}

impl KeyFolderWatcher {
    pub(super) fn new(settings: &Settings, keys: Arc<Keys>, clock: Arc<dyn Clock>) -> Self {
        let settings = &settings.keys;
        let folders = [&settings.signing_dir, &settings.sealing_dir];
        Self {
            keys,
            clock,
            folders: folders.into_iter().flatten().cloned().collect(),
            interval: settings.reload_interval,
        }
    }

    /// Does not return, unless no folder is set.
    pub(super) async fn run(self) {
        if self.folders.is_empty() {
            return;
        }
        let changed = Arc::new(Notify::new());
        let mut current_watcher = None;
        let mut logged = Vec::new();
        loop {
            let next_watcher = current_watcher.or_else(|| watcher(&changed));
            current_watcher = self.reload(next_watcher).await;
            self.log_warnings(&mut logged);
            let _ = tokio::time::timeout(self.interval, changed.notified()).await;
            tokio::time::sleep(SETTLING).await;
        }
    }

    async fn reload(&self, mut watcher: Option<RecommendedWatcher>) -> Option<RecommendedWatcher> {
        let (keys, now) = (Arc::clone(&self.keys), self.clock.now());
        let folders = self.folders.clone();
        // Reading a file blocks, on a network file system for long.
        let reloading = tokio::task::spawn_blocking(move || {
            // Each time, because the folder may have been replaced. Before it is read, so that no
            // later change is missed.
            if let Some(watcher) = &mut watcher {
                for folder in &folders {
                    watch(watcher, folder);
                }
            }
            for (purpose, reloaded) in keys.reload(now) {
                log_reload(purpose, &reloaded);
            }
            watcher
        });
        // A panic was logged, and dropped the watcher. The next reload makes another one.
        reloading.await.unwrap_or_default()
    }

    /// Logs the differences to the reasons that are in `logged`.
    fn log_warnings(&self, logged: &mut Vec<Reason>) {
        let warnings = self.keys.warnings(self.clock.now());
        let reasons: Vec<_> = warnings.into_iter().map(Reason::from).collect();
        for new in reasons.iter().filter(|reason| !logged.contains(reason)) {
            tracing::warn!(code = new.code.name(), "{}", new.message);
        }
        for old in logged.iter().filter(|reason| !reasons.contains(reason)) {
            tracing::info!(code = old.code.name(), "resolved: {}", old.message);
        }
        *logged = reasons;
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

/// Notifies `changed` when the content of a watched folder changes. `None` if the system has no more
/// watchers; the folders are read periodically all the same.
fn watcher(changed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let changed = Arc::clone(changed);
    let on_event = move |event: notify::Result<Event>| {
        // This program itself opens and reads the files.
        let is_read = matches!(
            event,
            Ok(Event { kind: EventKind::Access(kind), .. })
                if kind != AccessKind::Close(AccessMode::Write)
        );
        if !is_read {
            changed.notify_one();
        }
    };
    let watcher = notify::recommended_watcher(on_event);
    watcher
        .inspect_err(|error| tracing::debug!(error = %error, "folders are not watched"))
        .ok()
}
