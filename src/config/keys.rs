//! `[keys]`: the keys that sign access tokens and seal session tokens.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use iam_adapters::files;
use serde::{Deserialize, Serialize};

use super::problems::Problems;

/// A new key is not used for this long after it was made.
const JWKS_MAX_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A new key is not used for a minute more than `jwks_max_age`. Within that minute every replica must
/// have read its file.
const RELOAD_INTERVAL_MAX: Duration = Duration::from_secs(30);

/// The keys that sign access tokens and seal session tokens.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct KeySettings {
    /// The directory of the signing keys; `None`: a key generated at start.
    pub signing_dir: Option<PathBuf>,
    /// The directory of the sealing keys; `None`: a key generated at start.
    pub sealing_dir: Option<PathBuf>,
    /// How long verifiers may cache the published keys; whole seconds.
    #[serde(with = "humantime_serde")]
    pub jwks_max_age: Duration,
    /// The pause between two readings of the directories, and of the files that the settings name.
    #[serde(with = "humantime_serde")]
    pub reload_interval: Duration,
}

impl Default for KeySettings {
    fn default() -> Self {
        Self {
            signing_dir: None,
            sealing_dir: None,
            jwks_max_age: Duration::from_secs(300),
            reload_interval: Duration::from_secs(5),
        }
    }
}

impl KeySettings {
    /// The settings of directories that are not set. Such keys exist only in this process.
    pub(super) fn made_at_start(&self) -> impl Iterator<Item = &'static str> {
        [
            ("keys.signing_dir", &self.signing_dir),
            ("keys.sealing_dir", &self.sealing_dir),
        ]
        .into_iter()
        .filter_map(|(key, directory)| directory.is_none().then_some(key))
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        for (key, directory) in [
            ("keys.signing_dir", &self.signing_dir),
            ("keys.sealing_dir", &self.sealing_dir),
        ] {
            let read = directory.as_deref().map(|path| (path, fs::read_dir(path)));
            if let Some((path, Err(error))) = read {
                // The same text as when the keys are loaded later, so that it is reported once.
                let reason = files::reason(&error);
                problems.add(key, format!("{}: {reason}", path.display()));
            }
        }
        if self.signing_dir.is_some() && self.signing_dir == self.sealing_dir {
            problems.add(
                "keys.sealing_dir",
                "must be another directory than keys.signing_dir",
            );
        }
        let age = self.jwks_max_age;
        problems.duration_within(
            "keys.jwks_max_age",
            age,
            Duration::from_secs(1)..=JWKS_MAX_AGE_MAX,
        );
        problems.duration_within(
            "keys.reload_interval",
            self.reload_interval,
            Duration::from_secs(1)..=RELOAD_INTERVAL_MAX,
        );
        if age.subsec_nanos() != 0 {
            problems.add("keys.jwks_max_age", "must be whole seconds, as max-age is");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load_tests::problems;

    #[test]
    fn reload_interval_is_bounded() {
        for (interval, fine) in [
            ("1s", true),
            ("30s", true),
            ("999ms", false),
            ("31s", false),
        ] {
            let found = problems(&format!("[keys]\nreload_interval = \"{interval}\""), &[]);
            let expected = format!("keys.reload_interval: {interval} is not within 1s and 30s");
            assert_eq!(found.is_empty(), fine, "{found:?}");
            assert!(fine || found[0].starts_with(&expected), "{found:?}");
        }
    }
}
