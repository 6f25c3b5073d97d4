//! Keys in a folder, one file each.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::{Kept, KeyError, KeyFile};

/// Far above the largest key: a file that is longer is not one.
const FILE_BYTES_MAX: u64 = 32 * 1024;

/// Every key file of a folder as it was read, and not yet understood.
pub(super) struct Folder {
    files: Vec<(PathBuf, Zeroizing<Vec<u8>>)>,
}

impl Folder {
    /// Reads every `.jwk` file that is not hidden, in the order of their names.
    ///
    /// # Errors
    ///
    /// [`KeyError`], naming the file; one that cannot be read makes the folder unreadable.
    pub(super) fn read(path: &Path) -> Result<Self, KeyError> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(path).map_err(|source| io_error(path, source))? {
            let path = entry.map_err(|source| io_error(path, source))?.path();
            let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
            if path.extension().is_some_and(|extension| extension == "jwk")
                && !path.file_name().is_some_and(hidden)
            {
                paths.push(path);
            }
        }
        paths.sort();
        let mut files = Vec::new();
        for file in paths {
            match read(&file) {
                Ok(text) => files.push((file, text)),
                // Taken away since the folder was listed. A link to nowhere is still there.
                Err(_) if gone(&file) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { files })
    }

    /// By which a folder that did not change is known again.
    pub(super) fn digest(&self) -> Vec<u8> {
        let mut digest = Context::new(&SHA256);
        for (path, text) in &self.files {
            for part in [path.as_os_str().as_encoded_bytes(), text] {
                digest.update(&(part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        digest.finish().as_ref().to_vec()
    }

    /// The keys, each tested.
    ///
    /// # Errors
    ///
    /// [`KeyError`], naming the file.
    pub(super) fn keys<K: Kept>(&self) -> Result<Vec<K>, KeyError> {
        let keys = self.files.iter().map(|(path, text)| {
            let key = || KeyFile::parse(text).and_then(|file| K::from_file(&file));
            // Whoever may write a key file must not thereby end the process, or the task that
            // reads the next one.
            let key = catch_unwind(AssertUnwindSafe(key)).unwrap_or(Err(KeyError::Panicked));
            key.map_err(|reason| invalid(path, reason))
        });
        keys.collect()
    }
}

fn gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let io = |source| io_error(path, source);
    // Asked before it is opened: whoever opens a pipe waits for its other end.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(invalid(path, KeyError::Invalid("not a file")));
    }
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.permissions().mode() & 0o006 != 0 {
        return Err(KeyError::Exposed(path.to_owned()));
    }
    let mut text = Zeroizing::new(Vec::new());
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(io)?;
    Ok(text)
}

fn io_error(path: &Path, source: io::Error) -> KeyError {
    KeyError::Io {
        path: path.to_owned(),
        source,
    }
}

pub(super) fn invalid(path: &Path, reason: KeyError) -> KeyError {
    KeyError::InvalidFile {
        path: path.to_owned(),
        reason: Box::new(reason),
    }
}

/// Every key file of a folder, for whatever purpose, in the order of their names.
///
/// # Errors
///
/// [`KeyError`], naming the file; one broken file makes the folder broken.
pub fn read_dir(dir: &Path) -> Result<Vec<(PathBuf, KeyFile)>, KeyError> {
    let files = Folder::read(dir)?.files.into_iter();
    let keys = files.map(|(path, text)| {
        let key = KeyFile::parse(&text).map_err(|reason| invalid(&path, reason))?;
        Ok((path, key))
    });
    keys.collect()
}

/// Writes a key into a folder as `{kid}.jwk`, readable by its owner alone, whole or not at all.
///
/// # Errors
///
/// [`KeyError::Io`]; an existing file is never replaced.
pub fn write_new(dir: &Path, key: &KeyFile) -> Result<PathBuf, KeyError> {
    let path = dir.join(format!("{}.jwk", key.kid()));
    let draft = dir.join(format!(".{}.draft", key.kid()));
    let io = |source| io_error(&path, source);
    let text = key.text();
    fs::create_dir_all(dir).map_err(io)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(io)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        // A hard link fails where the name is taken; a rename would replace it.
        .and_then(|()| fs::hard_link(&draft, &path));
    fs::remove_file(&draft).map_err(io)?;
    written.and_then(|()| sync(dir)).map_err(io)?;
    Ok(path)
}

/// Takes a key's file away.
///
/// # Errors
///
/// [`KeyError::Io`].
pub fn remove(path: &Path) -> Result<(), KeyError> {
    let io = |source| io_error(path, source);
    fs::remove_file(path).map_err(io)?;
    path.parent().map_or(Ok(()), sync).map_err(io)
}

/// A name that came or went survives a power failure only after this.
fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
