//! `[session]`: sessions.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::section::section;

/// The range of `freshness` and of `permissions.ttl`.
pub(super) const AGES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(24 * 3600);

section! {
    pub struct SessionSettings {
        /// How old the cached liveness of a session may be when an access token is issued.
        #[serde(with = "humantime_serde")]
        pub freshness: Duration = Duration::from_secs(30), in AGES;
        /// The longest lifetime of a session. That of the IAM may be shorter.
        #[serde(with = "humantime_serde")]
        pub max_lifetime: Duration = Duration::from_secs(24 * 3600),
            in Duration::from_secs(60)..=Duration::from_secs(365 * 24 * 3600);
    }
}
