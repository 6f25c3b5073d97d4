//! `[permissions]`: what users may do.

use std::time::Duration;

use serde::Deserialize;

use super::problems::Problems;
use super::upstream::UpstreamSettings;

/// What users may do.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct PermissionSettings {
    /// How old the IAM's word on a user's permissions may be when a token is signed.
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
