//! `[cache]`: the caches of data from the IAM.

use serde::{Deserialize, Serialize};

use super::problems::Problems;

/// The caches of data from the IAM.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct CacheSettings {
    /// The bound of the caches of liveness and of permissions together, in bytes.
    pub max_bytes: usize,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

impl CacheSettings {
    pub(super) fn check(&self, problems: &mut Problems) {
        // With less, entries are evicted before they are used again.
        problems.number_within("cache.max_bytes", self.max_bytes, 1024 * 1024..=usize::MAX);
    }
}
