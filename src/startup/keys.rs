//! Reads the keys at start.

use std::path::PathBuf;
use std::sync::Arc;

use iam_adapters::Moment;
use secrecy::ExposeSecret as _;

use crate::config::{ConfigErrors, Settings};
use auth_gateway_core::Keys;
use auth_gateway_core::identifiers::IdentifierKey;
use auth_gateway_core::keys::{Key, KeyStore, Times};

/// Reads the folders of the settings. For a purpose without a folder, a key is generated; the settings
/// were checked for whether that is allowed.
pub(super) fn load(settings: &Settings, now: Moment, problems: &mut ConfigErrors) -> Option<Keys> {
    let keys = &settings.keys;
    let times = |lifetime| Times {
        max_age: keys.jwks_max_age,
        lifetime,
    };
    let signing = open(
        "keys.signing_dir",
        keys.signing_dir.as_ref(),
        (now, times(settings.token.lifetime)),
        problems,
    );
    let sealing = open(
        "keys.sealing_dir",
        keys.sealing_dir.as_ref(),
        (now, times(settings.session_max_lifetime())),
        problems,
    );
    let (signing, sealing) = (signing.ok()?, sealing.ok()?);
    let ephemeral = Keys::ephemeral(now);
    let ephemeral = ephemeral.map_err(|error| problems.add("keys", error.to_string()));
    let ephemeral = ephemeral.ok()?;
    let identifiers = keys.identifier_key.as_ref();
    let identifiers = identifiers.map(|key| IdentifierKey::new(key.expose_secret().as_bytes()));
    Some(Keys::new(
        signing.unwrap_or(ephemeral.signing),
        sealing.unwrap_or(ephemeral.sealing),
        identifiers.map_or(ephemeral.identifiers, Arc::new),
    ))
}

/// The keys of a folder; `None`: it is not set.
fn open<K: Key>(
    setting: &str,
    folder: Option<&PathBuf>,
    (now, times): (Moment, Times),
    problems: &mut ConfigErrors,
) -> Result<Option<KeyStore<K>>, ()> {
    let opened = folder.map(|folder| KeyStore::open(folder.clone(), now, times));
    opened.transpose().map_err(|error| {
        for error in error.each() {
            problems.add(setting, error.to_string());
        }
    })
}
