//! The keys of one purpose in a directory, in the order in which a gateway uses them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::cli::run::Wrong;
use crate::cli::{KeyTimes, KeyUse};
use crate::config::{self, Registry, Settings};
use crate::gateway::keys::{self, FileTimes, KeyError, KeyFile, KeyPurpose, Times};

/// The keys of one purpose.
pub(super) struct Keys(pub(super) Vec<(PathBuf, KeyFile)>);

impl Keys {
    /// Those in a directory, which need not exist yet.
    pub(super) fn read(directory: &Path, purpose: KeyUse) -> Result<Self, KeyError> {
        if !directory.exists() {
            return Ok(Self(Vec::new()));
        }
        let files = keys::read_dir(directory)?.into_iter();
        let mut mine: Vec<_> = files
            .filter(|(_, key)| key_use(key) == Some(purpose))
            .collect();
        mine.sort_by_key(|(_, key)| key.first_use());
        Ok(Self(mine))
    }

    pub(super) fn first_uses(&self) -> Vec<Timestamp> {
        self.0.iter().map(|(_, key)| key.first_use()).collect()
    }

    pub(super) fn file_times(&self) -> Vec<FileTimes> {
        self.0.iter().map(file_times).collect()
    }
}

/// A file that is gone by now is listed as if it had been written in time.
fn file_times((path, key): &(PathBuf, KeyFile)) -> FileTimes {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let written = modified
        .ok()
        .and_then(|time| Timestamp::try_from(time).ok());
    FileTimes {
        first_use: key.first_use(),
        written: written.unwrap_or_else(|| key.first_use()),
    }
}

/// What a key is for, where its file says something known.
pub(super) fn key_use(key: &KeyFile) -> Option<KeyUse> {
    Some(match key.purpose()? {
        KeyPurpose::Signing(_) => KeyUse::Signing,
        KeyPurpose::Sealing => KeyUse::Sealing,
    })
}

impl KeyUse {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Signing => "signing",
            Self::Sealing => "sealing",
        }
    }
}

impl KeyTimes {
    pub(super) fn settings(
        &self,
        environment: &BTreeMap<String, String>,
        registry: &Registry,
    ) -> Result<Settings, Wrong> {
        Ok(config::load(self.config.as_deref(), environment, registry)?)
    }

    pub(super) fn of(&self, purpose: KeyUse, settings: &Settings) -> Times {
        let lifetime = match purpose {
            KeyUse::Signing => self.token_lifetime.unwrap_or(settings.token.lifetime),
            KeyUse::Sealing => self
                .session_max_lifetime
                .unwrap_or(settings.session.max_lifetime),
        };
        Times {
            max_age: self.jwks_max_age.unwrap_or(settings.keys.jwks_max_age),
            lifetime,
        }
    }
}
