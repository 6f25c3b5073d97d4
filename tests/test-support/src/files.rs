//! Files that a test writes for a gateway.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file that only its owner can read and change, as a file with a secret should be.
pub fn write_private(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::write(path, contents).expect("written");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("private");
}
