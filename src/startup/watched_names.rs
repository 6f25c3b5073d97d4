//! The names of files whose events make the gateway read its keys and files again.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

use notify::Event;
use notify::event::{AccessKind, AccessMode, EventKind};

/// As many links as Linux follows (`path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// The names of the files that the gateway reads, of the links to them, and of their folders. Other files of these
/// folders may change often.
#[derive(Debug, Default)]
pub(super) struct WatchedNames(BTreeSet<OsString>);

impl WatchedNames {
    /// The names of keys in these folders, and of these files.
    pub(super) fn find(key_folders: &[PathBuf], files: &[PathBuf]) -> Self {
        let mut names = Self::default();
        for folder in key_folders {
            names.add_name(folder);
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if is_key(&entry.path()) {
                    names.add(&entry.path());
                }
            }
        }
        for file in files {
            names.add(file);
            if let Some(folder) = file.parent() {
                names.add_name(folder);
            }
        }
        names
    }

    fn add_name(&mut self, path: &Path) {
        self.0.extend(path.file_name().map(OsStr::to_owned));
    }

    /// Adds the name of a file and those through which the links of its folder lead to it: Kubernetes replaces only the
    /// link `..data`, to which the links of all files of a secret lead.
    fn add(&mut self, file: &Path) {
        let mut path = file.to_owned();
        for _ in 0..LINKS_MAX {
            self.add_name(&path);
            let Ok(target) = fs::read_link(&path) else {
                return;
            };
            let first = target.components().find(|part| *part != Component::CurDir);
            // A target in another folder, which is not watched.
            let Some(Component::Normal(name)) = first else {
                return;
            };
            path.set_file_name(name);
        }
    }

    /// Whether the event may change what the gateway reads.
    pub(super) fn is_change(&self, event: &notify::Result<Event>) -> bool {
        let Ok(event) = event else {
            return true;
        };
        // This program itself opens and reads the files.
        let is_read = matches!(
            event.kind,
            EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write)
        );
        let mut paths = event.paths.iter();
        // Without a path, events were lost.
        !is_read && (event.paths.is_empty() || paths.any(|path| self.has(path)))
    }

    fn has(&self, path: &Path) -> bool {
        is_key(path) || path.file_name().is_none_or(|name| self.0.contains(name))
    }
}

fn is_key(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jwk")
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::mpsc;

    use notify::{RecursiveMode, Watcher as _};

    use super::*;

    /// Whether each event of a change in a folder is one for these names.
    fn changes(folder: &Path, names: &WatchedNames, change: impl FnOnce()) -> Vec<bool> {
        let (sender, events) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(sender).unwrap();
        watcher.watch(folder, RecursiveMode::NonRecursive).unwrap();
        change();
        let end = folder.join("the-end");
        fs::write(&end, "").unwrap();
        let is_end = |event: &notify::Result<Event>| event.as_ref().unwrap().paths.contains(&end);
        let events = events.iter().take_while(|event| !is_end(event));
        let changes: Vec<_> = events.map(|event| names.is_change(&event)).collect();
        drop(watcher);
        fs::remove_file(end).unwrap();
        assert!(!changes.is_empty());
        changes
    }

    #[test]
    fn files_beside_a_watched_file_may_change_and_the_watched_file_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let [watched, other] = ["tls.key", "other"].map(|name| folder.path().join(name));
        fs::write(&watched, "a key").unwrap();
        let names = WatchedNames::find(&[], std::slice::from_ref(&watched));
        let changes = |change: &dyn Fn()| changes(folder.path(), &names, change);
        let write = |path: &Path| fs::write(path, "text").unwrap();
        let chmod = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        let beside = changes(&|| {
            write(&other);
            chmod(&other);
            fs::rename(&other, other.with_extension("bak")).unwrap();
            fs::remove_file(other.with_extension("bak")).unwrap();
            fs::read(&watched).unwrap();
        });
        assert!(!beside.contains(&true), "{beside:?}");
        write(&other);
        let changes_of_the_file: [(&str, &dyn Fn()); 5] = [
            ("written", &|| write(&watched)),
            ("permissions", &|| chmod(&watched)),
            ("replaced", &|| fs::rename(&other, &watched).unwrap()),
            ("removed", &|| fs::remove_file(&watched).unwrap()),
            ("created", &|| write(&watched)),
        ];
        for (what, change) in changes_of_the_file {
            assert!(changes(change).contains(&true), "{what}");
        }
    }

    /// As Kubernetes updates a secret in a pod.
    #[test]
    fn swap_of_a_mounted_secret_is_a_change() {
        for (file, is_key_folder) in [("tls.key", false), ("1.jwk", true)] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let generation = |name: &str| {
                fs::create_dir(folder.join(name)).unwrap();
                fs::write(folder.join(name).join(file), name).unwrap();
                symlink(name, folder.join("..data_tmp")).unwrap();
            };
            let swap = || fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
            generation("..2026_01");
            swap();
            symlink(format!("..data/{file}"), folder.join(file)).unwrap();
            let names = if is_key_folder {
                WatchedNames::find(&[folder.to_owned()], &[])
            } else {
                WatchedNames::find(&[], &[folder.join(file)])
            };
            let before = changes(folder, &names, || generation("..2026_02"));
            assert!(!before.contains(&true), "{before:?}");
            assert!(changes(folder, &names, swap).contains(&true), "{file}");
        }
    }

    #[test]
    fn new_key_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let names = WatchedNames::find(&[folder.path().to_owned()], &[]);
        let create = || fs::write(folder.path().join("new.jwk"), "").unwrap();
        assert!(changes(folder.path(), &names, create).contains(&true));
    }

    #[test]
    fn links_in_a_circle_are_followed_only_so_far() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        symlink("two", &one).unwrap();
        symlink("./one", &two).unwrap();
        let names = WatchedNames::find(&[], &[one]);
        assert!(names.0.contains(OsStr::new("two")), "{names:?}");
    }
}
