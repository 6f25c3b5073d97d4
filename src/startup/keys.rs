//! The keys: read when the gateway starts, and again whenever their folders change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{Clock, Moment};
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use crate::config::{Problems, Settings};
use crate::gateway::keys::{Kept, KeyError, KeyStore, Keys, Taken};
use crate::health::Reason;

/// Whoever changes a folder seldom changes one thing only.
const SETTLING: Duration = Duration::from_millis(100);

/// Reads the folders that the settings name. What no folder holds is made now; the settings were
/// asked whether that is allowed.
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
        Ok(made) => Some(Keys {
            signing: signing.unwrap_or(made.signing),
            sealing: sealing.unwrap_or(made.sealing),
        }),
        Err(error) => {
            problems.add("keys", error.to_string());
            None
        }
    }
}

/// None where no folder is set.
fn open<K: Kept>(
    folder: Option<&PathBuf>,
    now: Moment,
    max_age: Duration,
) -> Result<Option<KeyStore<K>>, KeyError> {
    let opened = folder.map(|folder| KeyStore::open(folder.clone(), now, max_age));
    opened.transpose()
}

/// Looks at the folders as soon as the system says that they changed, and from time to time in
/// case it did not: a network file system says nothing, and a folder that was replaced is not the
/// one that is watched.
pub(super) struct Watch {
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    folders: Vec<PathBuf>,
    interval: Duration,
}

impl Watch {
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

    /// Never ends, but where no folder is set.
    pub(super) async fn run(self) {
        if self.folders.is_empty() {
            return;
        }
        let changed = Arc::new(Notify::new());
        let mut given = None;
        let mut told = Vec::new();
        loop {
            given = self.look(given.or_else(|| watcher(&changed))).await;
            self.tell(&mut told);
            let _ = tokio::time::timeout(self.interval, changed.notified()).await;
            tokio::time::sleep(SETTLING).await;
        }
    }

    async fn look(&self, mut watcher: Option<RecommendedWatcher>) -> Option<RecommendedWatcher> {
        let (keys, now) = (Arc::clone(&self.keys), self.clock.now());
        let folders = self.folders.clone();
        // Reading a file may take as long as it pleases a network.
        let looked = tokio::task::spawn_blocking(move || {
            // Again each time: another folder may be there now. Before it is read, so that no
            // change falls in between.
            if let Some(watcher) = &mut watcher {
                for folder in &folders {
                    watch(watcher, folder);
                }
            }
            for (purpose, taken) in keys.reload(now) {
                tell(purpose, &taken);
            }
            watcher
        });
        // A panic was logged where it happened, and took the watcher along; the next look gets
        // another one, and may find a better folder.
        looked.await.unwrap_or_default()
    }

    /// Logs what is new since `told`.
    fn tell(&self, told: &mut Vec<Reason>) {
        let concerns = self.keys.concerns(self.clock.now());
        let reasons: Vec<_> = concerns.into_iter().map(Reason::from).collect();
        for new in reasons.iter().filter(|reason| !told.contains(reason)) {
            tracing::warn!(code = new.code.name(), "{}", new.message);
        }
        for gone in told.iter().filter(|reason| !reasons.contains(reason)) {
            tracing::info!(code = gone.code.name(), "no longer: {}", gone.message);
        }
        *told = reasons;
    }
}

fn watch(watcher: &mut RecommendedWatcher, folder: &Path) {
    if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
        tracing::debug!(folder = %folder.display(), error = %error, "the folder is not watched");
    }
}

fn tell(purpose: &'static str, taken: &Taken) {
    tracing::info!(
        purpose,
        kids = taken.kids.join(" "),
        "the keys were exchanged"
    );
    for (kid, begins) in &taken.held_back {
        tracing::warn!(
            purpose,
            kid,
            from = %format_args!("{begins:.0}"),
            "delaying use of this key until verifiers can have fetched it"
        );
    }
}

/// Wakes whoever waits when the content of a watched folder changes. None where the system has no
/// watchers left to give; the folders are looked at all the same.
fn watcher(changed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let changed = Arc::clone(changed);
    let heard = move |event: notify::Result<Event>| {
        // That a file was opened and read is this program's own doing.
        let read = matches!(
            event,
            Ok(Event { kind: EventKind::Access(kind), .. })
                if kind != AccessKind::Close(AccessMode::Write)
        );
        if !read {
            changed.notify_one();
        }
    };
    let watcher = notify::recommended_watcher(heard);
    watcher
        .inspect_err(|error| tracing::debug!(error = %error, "folders are not watched"))
        .ok()
}
