//! `[upstream]`: calls to the IAM, for all adapters.

use std::time::Duration;

use iam_adapters::resilient::{Limit, Limits};
use serde::{Deserialize, Serialize};

use super::known::join;
use super::permissions::PermissionSettings;
use super::problems::Problems;
use super::session::FRESHNESS_MAX;

/// The most for a deadline.
const DEADLINE_MAX: Duration = Duration::from_secs(60);

/// Calls to the IAM.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct UpstreamSettings {
    /// How long the connection may take.
    #[serde(with = "humantime_serde")]
    pub connect_deadline: Duration,
    /// How long a login may take.
    #[serde(with = "humantime_serde")]
    pub login_deadline: Duration,
    /// How long an introspection may take.
    #[serde(with = "humantime_serde")]
    pub introspection_deadline: Duration,
    /// How long a logout may take.
    #[serde(with = "humantime_serde")]
    pub logout_deadline: Duration,
    /// How long a probe may take.
    #[serde(with = "humantime_serde")]
    pub probe_deadline: Duration,
    /// The most concurrent logins.
    pub login_concurrency: usize,
    /// The most concurrent introspections.
    pub introspection_concurrency: usize,
    /// The most concurrent logouts.
    pub logout_concurrency: usize,
    /// The time between two probes.
    #[serde(with = "humantime_serde")]
    pub probe_interval: Duration,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            connect_deadline: Duration::from_secs(1),
            login_deadline: Duration::from_secs(5),
            introspection_deadline: Duration::from_secs(2),
            logout_deadline: Duration::from_secs(5),
            probe_deadline: Duration::from_secs(2),
            login_concurrency: 32,
            introspection_concurrency: 128,
            logout_concurrency: 32,
            probe_interval: Duration::from_secs(10),
        }
    }
}

impl UpstreamSettings {
    /// The bounds for the decorator around the adapter.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        Limits {
            login: Limit {
                deadline: self.login_deadline,
                concurrency: self.login_concurrency,
            },
            introspection: Limit {
                deadline: self.introspection_deadline,
                concurrency: self.introspection_concurrency,
            },
            logout: Limit {
                deadline: self.logout_deadline,
                concurrency: self.logout_concurrency,
            },
            // One call at a time serves all verifications that wait for it.
            keys: Limit {
                deadline: self.probe_deadline,
                concurrency: 1,
            },
            // One task probes.
            probe: Limit {
                deadline: self.probe_deadline,
                concurrency: 1,
            },
        }
    }

    /// `section` is that of the values, which an IAM may set too.
    pub(super) fn check(&self, section: &str, problems: &mut Problems) {
        for (key, value, most) in [
            ("connect_deadline", self.connect_deadline, DEADLINE_MAX),
            ("login_deadline", self.login_deadline, DEADLINE_MAX),
            (
                "introspection_deadline",
                self.introspection_deadline,
                DEADLINE_MAX,
            ),
            ("logout_deadline", self.logout_deadline, DEADLINE_MAX),
            ("probe_deadline", self.probe_deadline, DEADLINE_MAX),
            (
                "probe_interval",
                self.probe_interval,
                Duration::from_secs(3600),
            ),
        ] {
            let key = join(section, key);
            problems.duration_within(&key, value, Duration::from_millis(1)..=most);
        }
        for (key, value) in [
            ("login_concurrency", self.login_concurrency),
            ("introspection_concurrency", self.introspection_concurrency),
            ("logout_concurrency", self.logout_concurrency),
        ] {
            problems.number_within(&join(section, key), value, 1..=100_000);
        }
    }

    /// The age of a response counts from its request. A response that takes the whole deadline must
    /// still be fresh when it arrives: otherwise no response of a slow IAM could be used.
    pub(super) fn check_outlived_by(
        &self,
        key: &str,
        age: Duration,
        permissions: &PermissionSettings,
        problems: &mut Problems,
    ) {
        let decision = permissions.decision_deadline();
        if age < self.introspection_deadline + decision.unwrap_or_default() {
            let and = decision.map_or("", |_| " and permissions.deadline together");
            let message = format!(
                "must not be shorter than upstream.introspection_deadline{and}: the age of a \
                 response counts from its request, so a slow one would be too old to be used"
            );
            problems.add(key, message);
        }
        problems.duration_within(key, age, Duration::ZERO..=FRESHNESS_MAX);
    }
}
