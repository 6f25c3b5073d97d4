//! `[upstream]`: calls to the IAM, for all adapters.

use std::ops::RangeInclusive;
use std::time::Duration;

use iam_adapters::resilient::{CallLimit, CallLimits};

use super::permissions::PermissionSettings;
use super::problems::Problems;
use super::section::section;

/// No operation takes longer in a gateway that is in order.
const DEADLINES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

const CONCURRENCIES: RangeInclusive<usize> = 1..=100_000;

section! {
    /// Calls to the IAM.
    pub struct UpstreamSettings {
        /// How long the connection may take.
        #[serde(with = "humantime_serde")]
        pub connect_deadline: Duration = Duration::from_secs(1), in DEADLINES;
        /// How long a login may take.
        #[serde(with = "humantime_serde")]
        pub login_deadline: Duration = Duration::from_secs(5), in DEADLINES;
        /// How long an introspection may take.
        #[serde(with = "humantime_serde")]
        pub introspection_deadline: Duration = Duration::from_secs(2), in DEADLINES;
        /// How long a logout may take.
        #[serde(with = "humantime_serde")]
        pub logout_deadline: Duration = Duration::from_secs(5), in DEADLINES;
        /// How long a probe may take.
        #[serde(with = "humantime_serde")]
        pub probe_deadline: Duration = Duration::from_secs(2), in DEADLINES;
        /// The most concurrent logins.
        pub login_concurrency: usize = 32, in CONCURRENCIES;
        /// The most concurrent introspections.
        pub introspection_concurrency: usize = 128, in CONCURRENCIES;
        /// The most concurrent logouts.
        pub logout_concurrency: usize = 32, in CONCURRENCIES;
        /// The time between two probes.
        #[serde(with = "humantime_serde")]
        pub probe_interval: Duration = Duration::from_secs(10),
            in Duration::from_millis(1)..=Duration::from_secs(3600);
    }
}

impl UpstreamSettings {
    /// The bounds for the decorator around the adapter.
    #[must_use]
    pub const fn limits(&self) -> CallLimits {
        CallLimits {
            login: CallLimit {
                deadline: self.login_deadline,
                concurrency: self.login_concurrency,
            },
            introspection: CallLimit {
                deadline: self.introspection_deadline,
                concurrency: self.introspection_concurrency,
            },
            logout: CallLimit {
                deadline: self.logout_deadline,
                concurrency: self.logout_concurrency,
            },
            // One call at a time serves all verifications that wait for it.
            keys: CallLimit {
                deadline: self.probe_deadline,
                concurrency: 1,
            },
            // One task probes.
            probe: CallLimit {
                deadline: self.probe_deadline,
                concurrency: 1,
            },
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
    }
}
