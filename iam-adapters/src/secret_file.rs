//! A secret in its own file, as orchestrators provide it.

use std::fmt::Display;
use std::io::{self, Read as _};
use std::path::Path;

use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use serde::{Serialize as _, Serializer};

use crate::files::{self, Exposed};

/// Stands for a secret where settings are shown.
pub const HIDDEN: &str = "hidden";

/// Serializes a secret of settings as [`HIDDEN`]. Secrets do not serialize by themselves.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize_hidden<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(|_| HIDDEN).serialize(serializer)
}

/// Longer than any secret; a larger file was named by mistake.
const BYTES_MAX: usize = 64 * 1024;

/// Reads the secret, without the line break at its end that editors add.
///
/// # Errors
///
/// The problem. It names the file, unless its path is relative, and contains nothing of its content.
pub fn read(path: &Path) -> Result<SecretString, String> {
    let of_file = |problem: &dyn Display| format!("{}: {problem}", path.display());
    let unreadable = |error: io::Error| {
        let reason = files::reason(&error);
        if path.is_relative() {
            format!("{reason} (a relative path, not shown because it may be the secret itself)")
        } else {
            of_file(&reason)
        }
    };
    let file = files::open(path).map_err(unreadable)?;
    let mode = files::mode(&file.metadata().map_err(unreadable)?);
    Exposed::refuse(path, mode).map_err(|exposed| of_file(&exposed))?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES_MAX + 1));
    let mut limited = file.take(BYTES_MAX as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(unreadable)?;
    let text = std::str::from_utf8(&bytes).ok();
    let text = text.filter(|_| bytes.len() <= BYTES_MAX);
    let text = text.ok_or_else(|| of_file(&"is not a secret in UTF-8 of at most 64 KiB"))?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;
    use tempfile::NamedTempFile;

    use super::*;

    fn file(content: &[u8], mode: u32) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        write(&file, content).unwrap();
        set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn secret_is_the_text_without_the_line_break_at_its_end() {
        for (content, secret) in [
            (&b"s3cret"[..], "s3cret"),
            (b"s3cret\n", "s3cret"),
            (b" s3 cret \r\n", " s3 cret "),
            ("pä\n".as_bytes(), "pä"),
        ] {
            for mode in [0o600, 0o440] {
                let read = read(file(content, mode).path()).unwrap();
                assert_eq!(read.expose_secret(), secret);
            }
        }
    }

    #[test]
    fn file_that_every_user_may_read_or_change_is_refused() {
        for mode in [0o604, 0o602, 0o644, 0o777] {
            let file = file(b"s3cret", mode);
            let error = read(file.path()).expect_err("exposed");
            let path = file.path().display();
            let expected = format!(
                "{path}: every user may read or change it (mode {mode:04o}); run: chmod o-rw {path}"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn file_without_a_valid_secret_is_refused() {
        let long = vec![b'x'; BYTES_MAX];
        assert!(read(file(&long, 0o600).path()).is_ok());
        for content in [&[&long[..], b"x"].concat()[..], b"\xff\xfe"] {
            let refused = read(file(content, 0o600).path());
            let error = refused.expect_err("no secret");
            assert!(
                error.ends_with(": is not a secret in UTF-8 of at most 64 KiB"),
                "{error}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        for (path, reason) in [
            (Path::new("/nowhere/at/all"), "no such file or directory"),
            (folder.path(), "is a directory"),
        ] {
            let error = read(path).expect_err("no file");
            assert_eq!(error, format!("{}: {reason}", path.display()));
        }
        let error = read(Path::new("s3cret")).expect_err("no file");
        assert!(!error.contains("s3cret"), "{error}");
    }
}
