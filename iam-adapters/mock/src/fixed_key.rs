//! The signing key that everybody knows, so that tests can make tokens themselves.

use auth_gateway::gateway::keys::{KeyError, KeyFile, KeySet, Keys};

/// The private JWK, as it is published in the repository. Anybody can sign with it, so only a
/// gateway before the mock, on this machine alone, may accept it.
pub const FIXED_SIGNING_KEY: &str = include_str!("fixed_signing_key.json");

/// The same keys, except that [`FIXED_SIGNING_KEY`] signs.
///
/// # Errors
///
/// [`KeyError`] where the key in the repository cannot be used.
pub fn sign_with_it(keys: Keys) -> Result<Keys, KeyError> {
    let signing = KeyFile::parse(FIXED_SIGNING_KEY.as_bytes())?.to_signing()?;
    Ok(Keys {
        signing: KeySet::new(vec![signing])?.into(),
        ..keys
    })
}
