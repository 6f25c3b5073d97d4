//! `[session]`: sessions.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::permissions::PermissionSettings;
use super::problems::Problems;
use super::upstream::UpstreamSettings;

/// The range of `max_lifetime`.
pub(super) const MAX_LIFETIME: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(365 * 24 * 3600);

/// The most for `freshness` and `permissions.ttl`.
pub(super) const FRESHNESS_MAX: Duration = Duration::from_secs(24 * 3600);

/// Sessions.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct SessionSettings {
    /// How old the cached liveness of a session may be when an access token is issued.
    #[serde(with = "humantime_serde")]
    pub freshness: Duration,
    /// The longest lifetime of a session. That of the IAM may be shorter.
    #[serde(with = "humantime_serde")]
    pub max_lifetime: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            freshness: Duration::from_secs(30),
            max_lifetime: Duration::from_secs(24 * 3600),
        }
    }
}

impl SessionSettings {
    pub(super) fn check(
        &self,
        upstream: &UpstreamSettings,
        permissions: &PermissionSettings,
        problems: &mut Problems,
    ) {
        problems.duration_within("session.max_lifetime", self.max_lifetime, MAX_LIFETIME);
        upstream.check_outlived_by("session.freshness", self.freshness, permissions, problems);
    }
}
