//! The signing key that everybody knows, so that tests can make tokens themselves.

use super::{KeyError, KeyFile, KeySet, SigningKey};

/// The private JWK, as it is published in the repository. Whoever reads this can sign with it, so
/// only a gateway before the mock, on this machine alone, may honour it.
pub const FIXED_SIGNING_KEY: &str = include_str!("fixed_signing_key.json");

/// The set with that key only.
///
/// # Errors
///
/// [`KeyError`] where the file in the repository is no key.
pub(super) fn key_set() -> Result<KeySet<SigningKey>, KeyError> {
    let file = KeyFile::parse(FIXED_SIGNING_KEY.as_bytes())?;
    KeySet::new(vec![file.to_signing()?])
}
