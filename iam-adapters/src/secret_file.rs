//! A secret in a file of its own, as orchestrators hand it over.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use thiserror::Error;

/// Longer than any secret; shorter than what is mistaken for one.
const BYTES_MAX: usize = 64 * 1024;

/// Whether others than owner and group may read or write.
const OTHERS: u32 = 0o006;

/// Why a file gives no secret. Holds nothing of its content.
#[derive(Debug, Error)]
pub enum SecretFileError {
    /// It cannot be read.
    #[error("cannot be read: {}", .0.kind())]
    Io(#[from] io::Error),
    /// Anybody on the machine may read or change it.
    #[error("open to everybody; take that right away (chmod o-rw)")]
    Exposed,
    /// It is not text of at most 64 KiB.
    #[error("is not a secret in UTF-8 of at most 64 KiB")]
    NotASecret,
}

/// Reads the secret, without the line's end that editors leave behind.
///
/// # Errors
///
/// [`SecretFileError`]; the caller names the file.
pub fn read(path: &Path) -> Result<SecretString, SecretFileError> {
    let file = File::open(path)?;
    if file.metadata()?.permissions().mode() & OTHERS != 0 {
        return Err(SecretFileError::Exposed);
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES_MAX + 1));
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        return Err(SecretFileError::NotASecret);
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretFileError::NotASecret)?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

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
    fn a_secret_is_the_text_without_its_last_line_end() {
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
    fn what_everybody_may_read_or_change_is_no_secret() {
        for mode in [0o604, 0o602, 0o644, 0o777] {
            let refused = read(file(b"s3cret", mode).path());
            assert!(matches!(refused, Err(SecretFileError::Exposed)), "{mode:o}");
        }
    }

    #[test]
    fn what_cannot_be_a_secret_is_refused() {
        let long = vec![b'x'; BYTES_MAX];
        assert!(read(file(&long, 0o600).path()).is_ok());
        for content in [&[&long[..], b"x"].concat()[..], b"\xff\xfe"] {
            let refused = read(file(content, 0o600).path());
            assert!(matches!(refused, Err(SecretFileError::NotASecret)));
        }
        let nowhere = Path::new("/nowhere/at/all");
        assert!(matches!(read(nowhere), Err(SecretFileError::Io(_))));
    }
}
