//! A folder of keys, one file for each.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use iam_adapters::files::{self, Exposed, ROOT};
use rustix::fs::StatVfsMountFlags;
use rustix::process::geteuid;
use zeroize::Zeroizing;

use super::{Key, KeyError, KeyFile};

/// The longest key file; far above the largest key.
const FILE_BYTES_MAX: u64 = 32 * 1024;

/// The permission of users other than owner and group to add files. The sticky bit only keeps them from
/// removing those of others.
const OTHERS_WRITE: u32 = 0o002;

/// The files of a folder, not yet parsed.
pub(super) struct Folder {
    files: Vec<(PathBuf, Zeroizing<Vec<u8>>)>,
    /// Problems of the folder and of files that could not be read.
    errors: Vec<KeyError>,
}

impl Folder {
    /// Reads every `.jwk` file that is not hidden, in the order of their names.
    ///
    /// # Errors
    ///
    /// [`KeyError::Io`] if the folder cannot be listed.
    pub(super) fn read(path: &Path) -> Result<Self, KeyError> {
        Self::read_as(geteuid().as_raw(), path)
    }

    /// Reads it for the user with this id. Files of other users than this one and root are a problem.
    pub(super) fn read_as(user: u32, path: &Path) -> Result<Self, KeyError> {
        let io = |source| io_error(path, source);
        let mut paths = Vec::new();
        for entry in fs::read_dir(path).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
            if path.extension().is_some_and(|extension| extension == "jwk")
                && !path.file_name().is_some_and(hidden)
            {
                paths.push(path);
            }
        }
        paths.sort();
        let mut folder = Self {
            files: Vec::new(),
            errors: Vec::new(),
        };
        let mode = files::mode(&fs::metadata(path).map_err(io)?);
        if can_others_add_files(mode, is_read_only(path)) {
            folder.errors.push(KeyError::WritableFolder {
                path: path.to_owned(),
                mode,
            });
        }
        for file in paths {
            match read(&file, user) {
                Ok(text) => folder.files.push((file, text)),
                // Removed since the folder was listed. A dangling link still exists.
                Err(_) if is_missing(&file) => {}
                Err(error) => folder.errors.push(error),
            }
        }
        Ok(folder)
    }

    /// The folder, if every file could be read.
    ///
    /// # Errors
    ///
    /// [`KeyError`] with every problem.
    fn whole(mut self) -> Result<Self, KeyError> {
        several(std::mem::take(&mut self.errors)).map_or(Ok(self), Err)
    }

    /// Identifies the content of the folder; `None` if a file could not be read.
    pub(super) fn digest(&self) -> Option<Vec<u8>> {
        if !self.errors.is_empty() {
            return None;
        }
        let mut digest = Context::new(&SHA256);
        for (path, text) in &self.files {
            for part in [path.as_os_str().as_encoded_bytes(), text] {
                digest.update(&(part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        Some(digest.finish().as_ref().to_vec())
    }

    /// The keys, each tested.
    ///
    /// # Errors
    ///
    /// [`KeyError`] with every problem and its file.
    pub(super) fn keys<K: Key>(self) -> Result<Vec<K>, KeyError> {
        let mut keys = Vec::new();
        let mut errors = self.errors;
        for (path, text) in &self.files {
            let key = || KeyFile::parse(text).and_then(|file| K::from_file(&file));
            // A malformed key file must not end the process or the task that reads the files.
            match catch_unwind(AssertUnwindSafe(key)).unwrap_or(Err(KeyError::Panicked)) {
                Ok(key) => keys.push(key),
                Err(reason) => errors.push(invalid(path, reason)),
            }
        }
        several(errors).map_or(Ok(keys), Err)
    }
}

/// All of them as one error; `None` if there are none.
fn several(mut errors: Vec<KeyError>) -> Option<KeyError> {
    match errors.len() {
        0 | 1 => errors.pop(),
        _ => Some(KeyError::Several(errors)),
    }
}

/// Whether every user may add keys to a folder. Kubernetes mounts secrets as folders with write
/// permission for all users, on a read-only file system.
const fn can_others_add_files(mode: u32, read_only_file_system: bool) -> bool {
    mode & OTHERS_WRITE != 0 && !read_only_file_system
}

fn is_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn read(path: &Path, user: u32) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let io = |source| io_error(path, source);
    // Checked before it is opened, because opening a pipe blocks until its other end is open.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(invalid(path, KeyError::Invalid("not a file")));
    }
    let file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    let owner = metadata.uid();
    if owner != ROOT && owner != user {
        return Err(KeyError::ForeignFile {
            path: path.to_owned(),
            owner,
            user,
        });
    }
    Exposed::refuse(path, files::mode(&metadata))
        .map_err(|exposed| KeyError::Exposed(path.to_owned(), exposed))?;
    let mut text = Zeroizing::new(Vec::new());
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(io)?;
    Ok(text)
}

fn io_error(path: &Path, source: io::Error) -> KeyError {
    KeyError::Io(path.to_owned(), source)
}

pub(super) fn invalid(path: &Path, reason: KeyError) -> KeyError {
    KeyError::InvalidFile(path.to_owned(), Box::new(reason))
}

/// Every key file of a folder, for any purpose, in the order of their names. Root lists and rotates the
/// keys of the gateway's user, so for root the owner of the folder counts as the program's user.
///
/// # Errors
///
/// [`KeyError`] with the file. One invalid file makes the folder invalid.
pub fn read_dir(dir: &Path) -> Result<Vec<(PathBuf, KeyFile)>, KeyError> {
    let user = match geteuid().as_raw() {
        ROOT => fs::metadata(dir)
            .map_err(|source| io_error(dir, source))?
            .uid(),
        user => user,
    };
    let files = Folder::read_as(user, dir)?.whole()?.files.into_iter();
    let keys = files.map(|(path, text)| {
        let key = KeyFile::parse(&text).map_err(|reason| invalid(&path, reason))?;
        Ok((path, key))
    });
    keys.collect()
}

/// Writes a key into a folder as `{kid}.jwk`, atomically and readable only by its owner: the program's user or, for
/// root, the owner of the folder.
///
/// # Errors
///
/// [`KeyError::Io`]; an existing file is never replaced.
pub fn write_new(dir: &Path, key: &KeyFile) -> Result<PathBuf, KeyError> {
    let path = dir.join(format!("{}.jwk", key.kid()));
    let draft = dir.join(format!(".{}.draft", key.kid()));
    let io = |source| io_error(&path, source);
    let text = key.text();
    files::create_folder(dir).map_err(io)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(io)?;
    let written = files::give_to_owner_of_folder(&file, dir)
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        // A hard link fails where the name is taken; a rename would replace it.
        .and_then(|()| fs::hard_link(&draft, &path));
    fs::remove_file(&draft).map_err(io)?;
    written.and_then(|()| sync(dir)).map_err(io)?;
    Ok(path)
}

/// Removes a key file.
///
/// # Errors
///
/// [`KeyError::Io`].
pub fn remove(path: &Path) -> Result<(), KeyError> {
    let io = |source| io_error(path, source);
    fs::remove_file(path).map_err(io)?;
    path.parent().map_or(Ok(()), sync).map_err(io)
}

/// Added and removed names are durable only after this.
fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_can_add_files_to_a_folder_with_their_write_permission_on_a_writable_file_system() {
        for (mode, read_only, expected) in [
            (0o777, false, true),
            (0o702, false, true),
            (0o777, true, false),
            (0o1777, false, true),
            (0o1777, true, false),
            // A secret in Kubernetes with fsGroup, and a credential of systemd.
            (0o3777, true, false),
            (0o500, true, false),
            (0o775, false, false),
            (0o770, false, false),
            (0o755, false, false),
        ] {
            let decided = can_others_add_files(mode, read_only);
            assert_eq!(decided, expected, "{mode:o} {read_only}");
        }
    }
}
