//! `[permissions]`: permissions of users.

use std::time::Duration;

use serde::Deserialize;

use super::problems::Problems;
use super::upstream::UpstreamSettings;

/// Permissions of users.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct PermissionSettings {
    /// How old cached permissions may be when an access token is issued.
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,
}

impl Default for PermissionSettings {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(60),
        }
    }
}

impl PermissionSettings {
    pub(super) fn check(&self, upstream: &UpstreamSettings, problems: &mut Problems) {
        upstream.check_outlived_by("permissions.ttl", self.ttl, problems);
    }
}
