//! `[session]`: what login creates.

use std::time::Duration;

use serde::Deserialize;

use super::problems::Problems;
use super::upstream::UpstreamSettings;

/// No more than a year: a session is a login, not an account.
const MAX_LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Freshness beyond a day promises nothing.
pub(super) const FRESHNESS_MAX: Duration = Duration::from_secs(24 * 3600);

/// What login creates.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    /// How old the IAM's word that a session is alive may be when a token is signed.
    #[serde(with = "humantime_serde")]
    pub freshness: Duration,
    /// Cuts what the IAM promises.
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
    pub(super) fn check(&self, upstream: &UpstreamSettings, problems: &mut Problems) {
        problems.duration_within(
            "session.max_lifetime",
            self.max_lifetime,
            Duration::from_secs(60)..=MAX_LIFETIME_MAX,
        );
        upstream.check_outlived_by("session.freshness", self.freshness, problems);
    }
}
