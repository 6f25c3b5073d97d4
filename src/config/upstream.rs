//! `[upstream]`: calls to the IAM, for all adapters.

use std::ops::RangeInclusive;
use std::time::Duration;

use iam_adapters::resilient::{CallLimit, CallLimits};

use super::errors::ConfigErrors;
use super::section::section;

/// No operation takes longer in a gateway that is in order.
const DEADLINES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

const CONCURRENCIES: RangeInclusive<usize> = 1..=100_000;

section! {
    pub struct UpstreamSettings {
        #[serde(with = "humantime_serde")]
        pub connect_deadline: Duration = Duration::from_secs(1), in DEADLINES;
        #[serde(with = "humantime_serde")]
        pub login_deadline: Duration = Duration::from_secs(5), in DEADLINES;
        #[serde(with = "humantime_serde")]
        pub introspection_deadline: Duration = Duration::from_secs(2), in DEADLINES;
        #[serde(with = "humantime_serde")]
        pub logout_deadline: Duration = Duration::from_secs(5), in DEADLINES;
        #[serde(with = "humantime_serde")]
        pub probe_deadline: Duration = Duration::from_secs(2), in DEADLINES;
        pub login_concurrency: usize = 32, in CONCURRENCIES;
        pub introspection_concurrency: usize = 128, in CONCURRENCIES;
        pub logout_concurrency: usize = 32, in CONCURRENCIES;
        #[serde(with = "humantime_serde")]
        pub probe_interval: Duration = Duration::from_secs(10),
            in Duration::from_millis(1)..=Duration::from_secs(3600);
    }
}

impl UpstreamSettings {
    /// The bounds for the decorator around the adapter.
    pub fn limits(&self) -> CallLimits {
        let limit = |deadline, concurrency| CallLimit {
            deadline,
            concurrency,
        };
        CallLimits {
            login: limit(self.login_deadline, self.login_concurrency),
            introspection: limit(self.introspection_deadline, self.introspection_concurrency),
            logout: limit(self.logout_deadline, self.logout_concurrency),
            // One call at a time serves all verifications that wait for it.
            keys: limit(self.probe_deadline, 1),
            // One task probes.
            probe: limit(self.probe_deadline, 1),
        }
    }

    /// The age of a response counts from its request. A response that takes the whole deadline must
    /// still be fresh when it arrives: otherwise no response of a slow IAM could be used. `decision` is
    /// [`PermissionSettings::decision_deadline`](super::PermissionSettings).
    pub(super) fn check_outlived_by(
        &self,
        key: &str,
        age: Duration,
        decision: Option<Duration>,
        problems: &mut ConfigErrors,
    ) {
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
