//! Reads the keys at start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Moment;
use secrecy::ExposeSecret as _;

use crate::config::{ConfigErrors, Settings};
use auth_gateway_core::Keys;
use auth_gateway_core::identifiers::IdentifierKey;
use auth_gateway_core::keys::{Key, KeyError, KeyStore};

/// Reads the folders of the settings. For a purpose without a folder, a key is generated; the settings
/// were checked for whether that is allowed.
pub(super) fn load(settings: &Settings, now: Moment, problems: &mut ConfigErrors) -> Option<Keys> {
    let (signing, sealing) = (&settings.keys.signing_dir, &settings.keys.sealing_dir);
    let max_age = settings.keys.jwks_max_age;
    let signing = open(signing.as_ref(), now, max_age);
    let sealing = open(sealing.as_ref(), now, max_age);
    for (setting, error) in [
        ("keys.signing_dir", signing.as_ref().err()),
        ("keys.sealing_dir", sealing.as_ref().err()),
    ] {
        for error in error.into_iter().flat_map(KeyError::each) {
            problems.add(setting, error.to_string());
        }
    }
    let (signing, sealing) = (signing.ok()?, sealing.ok()?);
    match Keys::ephemeral(now) {
        Ok(ephemeral) => {
            let identifiers = settings.keys.identifier_key.as_ref();
            let identifiers = identifiers
                .map(|secret| Arc::new(IdentifierKey::new(secret.expose_secret().as_bytes())));
            Some(Keys::new(
                signing.unwrap_or(ephemeral.signing),
                sealing.unwrap_or(ephemeral.sealing),
                identifiers.unwrap_or(ephemeral.identifiers),
            ))
        }
        Err(error) => {
            problems.add("keys", error.to_string());
            None
        }
    }
}

/// `None` if no folder is set.
fn open<K: Key>(
    folder: Option<&PathBuf>,
    now: Moment,
    max_age: Duration,
) -> Result<Option<KeyStore<K>>, KeyError> {
    let opened = folder.map(|folder| KeyStore::open(folder.clone(), now, max_age));
    opened.transpose()
}
