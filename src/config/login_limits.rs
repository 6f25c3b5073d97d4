//! `[login_limits]`: the limits of logins.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::IamSection;
use super::section::section;
use auth_gateway_core::login_limiter::{Bound, Limits, SlowRate};

pub(super) const LOGINS: RangeInclusive<u32> = 0..=1_000_000;

const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// The default of `account_sessions_per_minute`, unless no IAM limits logins.
const SESSIONS_PER_MINUTE: u32 = 20;

/// The default of `rate`, unless no IAM limits logins: what a small Keycloak can process, from all replicas. It has two
/// cores with 15 logins a second each, according to its sizing guide. Small servers that hash passwords with one core
/// are slower.
const RATE: u32 = 30;

section! {
    /// The limits of logins, for each replica.
    pub struct LoginLimitSettings {
        /// The most refused logins of one account at once; 0: no bound.
        pub account_failures: u32 = 10, in LOGINS;
        /// The time in which all of them expire, one after the other.
        #[serde(with = "humantime_serde")]
        pub account_window: Duration = Duration::from_secs(5 * 60), in WINDOWS;
        /// The refused logins of one account in a row, from unknown networks or from one known network,
        /// after which the rate falls; 0: never. It never falls if `account_failures` is 0.
        pub account_failures_in_a_row: u32 = 50, in LOGINS;
        /// The time until one login reaches the IAM then. It doubles with each further refused one, up to
        /// four hours.
        #[serde(with = "humantime_serde")]
        pub account_slow_interval: Duration = Duration::from_secs(15 * 60), in WINDOWS;
        /// New sessions of one account in a minute; 0: no bound; `None`: the default for the IAMs.
        pub account_sessions_per_minute: Option<u32> = None, in LOGINS;
        /// The most refused logins from one address at once; 0: no bound.
        pub address_failures: u32 = 100, in LOGINS;
        /// The time in which all of them expire, one after the other.
        #[serde(with = "humantime_serde")]
        pub address_window: Duration = Duration::from_secs(15 * 60), in WINDOWS;
        /// Logins a second that reach each IAM; 0: no bound; `None`: the default for the IAMs.
        pub rate: Option<u32> = None, in LOGINS;
    }
}

impl LoginLimitSettings {
    /// The limits, with the defaults that [`Self::derive_defaults`] has set.
    pub fn limits(&self) -> Limits {
        let bound = |most, window| Bound { most, window };
        let sessions_per_minute = self.account_sessions_per_minute.unwrap_or_default();
        Limits {
            account: bound(self.account_failures, self.account_window),
            account_slow: SlowRate {
                after: match self.account_failures {
                    0 => 0,
                    _ => self.account_failures_in_a_row,
                },
                interval: self.account_slow_interval,
            },
            account_sessions: bound(sessions_per_minute, Duration::from_secs(60)),
            address: bound(self.address_failures, self.address_window),
        }
    }

    /// Sets what is not set and depends on these IAMs. They count the sessions of an account together, and each
    /// has the rate for itself.
    pub(super) fn derive_defaults(&mut self, iams: &mut [IamSection]) {
        let is_limited = iams.is_empty() || iams.iter().any(|iam| iam.adapter.limits_logins());
        let default = |limit| if is_limited { limit } else { 0 };
        (self.account_sessions_per_minute).get_or_insert(default(SESSIONS_PER_MINUTE));
        if self.rate.is_none() {
            self.rate = Some(default(RATE));
            for iam in iams {
                if !iam.adapter.limits_logins() {
                    iam.options.logins_per_second.get_or_insert(0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::config::Settings;
    use crate::config::load_tests::load_text;

    const KEYCLOAK: &str =
        "[iam.keycloak]\nurl = 'http://k'\nrealm = 'r'\nclient_id = 'c'\nclient_secret = 's'\n";

    /// The settings with this IAM, and this value of a login limit if there is one.
    fn settings(iam: &str, limit: &str, value: Option<&str>) -> Settings {
        let variable = value.map(|value| (limit, value));
        load_text(iam, variable.as_slice()).unwrap()
    }

    #[test]
    fn default_rate_depends_on_the_adapter() {
        for (rate, iam, logins) in [
            (None, KEYCLOAK, Some(30)),
            (None, "", None),
            (Some("0"), KEYCLOAK, None),
            (Some("7"), KEYCLOAK, Some(7)),
            (Some("7"), "", Some(7)),
        ] {
            let settings = settings(iam, "LOGIN_LIMITS__RATE", rate);
            let policy = settings.iams[0].policy(&settings);
            let allowed = policy.logins_per_second.map(NonZeroU32::get);
            assert_eq!(allowed, logins, "{rate:?}");
        }
    }

    #[test]
    fn account_may_begin_twenty_sessions_a_minute_unless_the_adapter_has_another_default() {
        for (set, iam, most) in [
            (None, KEYCLOAK, 20),
            (None, "", 0),
            (Some("0"), KEYCLOAK, 0),
            (Some("7"), "", 7),
        ] {
            let limit = "LOGIN_LIMITS__ACCOUNT_SESSIONS_PER_MINUTE";
            let limits = settings(iam, limit, set).login_limits.limits();
            assert_eq!(limits.account_sessions.most, most, "{set:?}");
        }
    }

    #[test]
    fn slow_rate_begins_after_fifty_failures_unless_failures_are_unlimited() {
        let slow = |account_failures| {
            let settings = LoginLimitSettings {
                account_failures,
                ..LoginLimitSettings::default()
            };
            settings.limits().account_slow
        };
        let interval = Duration::from_secs(900);
        for (account_failures, after) in [(10, 50), (0, 0)] {
            assert_eq!(slow(account_failures), SlowRate { after, interval });
        }
    }
}
