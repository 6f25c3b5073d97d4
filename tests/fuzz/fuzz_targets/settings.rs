//! The configuration file is used completely or refused with reasons, and no message contains a secret.

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use auth_gateway::config::Environment;
use auth_gateway_fuzz::CANARY;
use libfuzzer_sys::fuzz_target;
use tempfile::{Builder, NamedTempFile};

fuzz_target!(|text: &[u8]| {
    thread_local!(static FILE: NamedTempFile = Builder::new().suffix(".toml").tempfile().expect("a file"));
    FILE.with(|file| {
        fs::write(file.path(), text).expect("a file");
        match auth_gateway_dev::settings(Some(file.path()), &BTreeMap::new()) {
            Ok(settings) => {
                assert!(settings.session.freshness <= Duration::from_secs(24 * 3600));
                if settings.environment == Environment::Production {
                    assert!(
                        settings.keys.signing_dir.is_some() && settings.keys.sealing_dir.is_some()
                    );
                }
                // Debug output of the settings never contains the secret.
                if let Some(secret) = secret_of(text) {
                    assert!(!format!("{settings:?}").contains(&secret));
                }
            }
            Err(refused) => {
                assert!(!refused.problems.is_empty());
                if let Some(secret) = secret_of(text) {
                    assert!(!refused.to_string().contains(&secret), "{refused}");
                }
            }
        }
    });
});

/// The client secret, if it is the canary of the corpus.
fn secret_of(text: &[u8]) -> Option<String> {
    let table: toml::Table = std::str::from_utf8(text).ok()?.parse().ok()?;
    let secret = table.get("iam")?.get("keycloak")?.get("client_secret")?;
    let secret = secret.as_str()?;
    // A file with the same text in another setting may show it there.
    let once = text
        .windows(CANARY.len())
        .filter(|part| *part == CANARY.as_bytes());
    (secret.contains(CANARY) && once.count() == 1).then(|| CANARY.to_owned())
}
