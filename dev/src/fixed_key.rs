//! The published signing key, with which tests can sign tokens themselves.

use auth_gateway_core::Keys;
use auth_gateway_core::keys::{Key as _, KeyError, KeyFile, KeySet, SigningKey};

/// The private JWK, as published in the repository. Only a gateway with the mock on a loopback address
/// may use it.
pub const FIXED_SIGNING_KEY: &str = include_str!("fixed_signing_key.json");

/// Replaces the signing key by [`FIXED_SIGNING_KEY`].
///
/// # Errors
///
/// [`KeyError`] if the published key is invalid.
pub fn sign_with_it(keys: Keys) -> Result<Keys, KeyError> {
    let file = KeyFile::parse(FIXED_SIGNING_KEY.as_bytes())?;
    let signing = SigningKey::from_file(&file)?;
    Ok(Keys::new(
        KeySet::new(vec![signing])?.into(),
        keys.sealing,
        keys.identifiers,
    ))
}
