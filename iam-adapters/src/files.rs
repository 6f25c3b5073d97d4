//! Files that settings name: read errors and permissions.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The permission bits of other users than owner and group. The group may read: orchestrators and
/// service managers provide secrets to a group.
const OTHERS_READ_OR_WRITE: u32 = 0o006;

/// The reason why a file or a folder cannot be read.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// The permission bits of a file, including set-user-ID, set-group-ID and sticky.
#[must_use]
pub fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

/// A file with a secret that every user of the machine may read or change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("every user may read or change it (mode {mode:04o}); run: chmod o-rw {}", path.display())]
pub struct Exposed {
    path: PathBuf,
    mode: u32,
}

impl Exposed {
    /// Refuses a file with a secret that other users than its owner and its group may read or change.
    ///
    /// # Errors
    ///
    /// [`Exposed`].
    pub fn refuse(path: &Path, mode: u32) -> Result<(), Self> {
        if mode & OTHERS_READ_OR_WRITE == 0 {
            return Ok(());
        }
        Err(Self {
            path: path.to_owned(),
            mode,
        })
    }
}
