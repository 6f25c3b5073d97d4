//! Files that settings name: read errors, permissions and owners.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The permission bits of other users than owner and group. The group may read: orchestrators and
/// service managers provide secrets to a group.
const OTHERS_READ_OR_WRITE: u32 = 0o006;

/// The id of the user root.
pub const ROOT: u32 = 0;

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

/// Opens a regular file, or a link to one, which every reload can read again. What is read of a pipe is gone, and
/// opening one blocks until its other end is open, so another kind of file is refused before it is opened.
///
/// # Errors
///
/// It cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other(
            "is not a regular file, which can be read again at each reload",
        ));
    }
    File::open(path)
}

/// The permission bits of a file, including set-user-ID, set-group-ID and sticky.
#[must_use]
pub fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

/// Gives a new file of root to the owner of its folder. Root makes secrets and keys for the user of the gateway, who
/// could not read them otherwise. A file of another user stays as it is, because only root can give files away.
///
/// # Errors
///
/// The owner of the folder cannot be read, or that of the file cannot be set.
pub fn give_to_owner_of_folder(file: &File, folder: &Path) -> io::Result<()> {
    if file.metadata()?.uid() != ROOT {
        return Ok(());
    }
    fchown(file, Some(fs::metadata(folder)?.uid()), None)
}

/// Makes a folder and those around it that do not exist. What root makes belongs to the owner of the folder around it, as
/// [new files](give_to_owner_of_folder) do.
///
/// # Errors
///
/// A folder cannot be made or given away, or another file has its name.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(around) = folder.parent() {
        // That of a name alone is empty.
        if !around.as_os_str().is_empty() {
            create_folder(around)?;
        }
    }
    match fs::create_dir(folder) {
        Ok(()) => give_to_owner_of_folder(&File::open(folder)?, &folder.join("..")),
        // Another program has made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_and_links_to_them_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "content").unwrap();
        // As Kubernetes mounts a secret.
        symlink(path("file"), path("link")).unwrap();
        for name in ["file", "link"] {
            let content = io::read_to_string(open(&path(name)).unwrap()).unwrap();
            assert_eq!(content, "content");
        }
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        symlink(&pipe, path("link-to-pipe")).unwrap();
        let refused = "is not a regular file, which can be read again at each reload";
        for (path, expected) in [
            (pipe, refused),
            (path("link-to-pipe"), refused),
            (path("."), "is a directory"),
            (path("missing"), "no such file or directory"),
        ] {
            let error = open(&path).expect_err("refused");
            assert_eq!(reason(&error), expected);
        }
    }
}
