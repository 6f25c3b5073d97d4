//! `[login_limits]`: the limits of logins.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use iam_adapters::registry::IamSettings;

use super::IamSection;
use super::section::section;
use auth_gateway_core::login_limiter::{Bound, Limits, SlowRate};

pub(super) const LOGINS: RangeInclusive<u32> = 0..=1_000_000;

const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

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
        /// New sessions of one account in a minute; 0: no bound; `None`: the adapter's default.
        pub account_sessions_per_minute: Option<u32> = None, in LOGINS;
        /// The most refused logins from one address at once; 0: no bound.
        pub address_failures: u32 = 100, in LOGINS;
        /// The time in which all of them expire, one after the other.
        #[serde(with = "humantime_serde")]
        pub address_window: Duration = Duration::from_secs(15 * 60), in WINDOWS;
        /// Logins a second that reach the IAM; 0: no bound; `None`: the adapter's default.
        pub rate: Option<u32> = None, in LOGINS;
    }
}

impl LoginLimitSettings {
    /// The limits for these IAMs, which count together.
    pub fn before<'i>(&self, iams: impl IntoIterator<Item = &'i IamSettings>) -> Limits {
        let bound = |most, window| Bound { most, window };
        let defaults = iams.into_iter().map(|iam| iam.sessions_per_minute());
        let sessions_per_minute = (self.account_sessions_per_minute)
            .or_else(|| defaults.filter(|most| *most > 0).min())
            .unwrap_or_default();
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

    /// The logins that reach an IAM in a second.
    pub fn rate_of(&self, iam: &IamSettings) -> Option<NonZeroU32> {
        self.rate
            .map_or_else(|| iam.logins_per_second(), NonZeroU32::new)
    }

    /// Sets what is not set and depends on the adapters of these IAMs. The rate of several IAMs is a setting
    /// of each.
    pub(super) fn derive_defaults(&mut self, iams: &mut [IamSection]) {
        let limits = self.before(iams.iter().map(|iam| &iam.adapter));
        (self.account_sessions_per_minute).get_or_insert(limits.account_sessions.most);
        if self.rate.is_some() {
            return;
        }
        let rate_of = |iam: &IamSection| self.rate_of(&iam.adapter).map_or(0, NonZeroU32::get);
        if let [only] = iams {
            self.rate = Some(rate_of(only));
        } else {
            for iam in iams {
                let rate = rate_of(iam);
                iam.options.logins_per_second.get_or_insert(rate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use iam_adapters::ClientSection as _;
    use iam_adapters::keycloak::KeycloakSettings;

    use super::*;
    use crate::config::sample::SampleSettings;

    fn keycloak() -> IamSettings {
        let keycloak =
            r#"{"url": "http://k", "realm": "r", "client_id": "c", "client_secret": "s"}"#;
        let section = serde_json::from_str(keycloak).unwrap();
        IamSettings::new(KeycloakSettings::read(section).unwrap())
    }

    #[test]
    fn default_rate_depends_on_the_adapter() {
        let (keycloak, any) = (keycloak(), IamSettings::new(SampleSettings::default()));
        for (rate, iam, logins) in [
            (None, &keycloak, Some(30)),
            (None, &any, None),
            (Some(0), &keycloak, None),
            (Some(7), &keycloak, Some(7)),
            (Some(7), &any, Some(7)),
        ] {
            let settings = LoginLimitSettings {
                rate,
                ..LoginLimitSettings::default()
            };
            let allowed = settings.rate_of(iam).map(NonZeroU32::get);
            assert_eq!(allowed, logins, "{rate:?}");
        }
    }

    #[test]
    fn account_may_begin_twenty_sessions_a_minute_unless_the_adapter_has_another_default() {
        let (keycloak, any) = (keycloak(), IamSettings::new(SampleSettings::default()));
        for (set, iam, most) in [
            (None, &keycloak, 20),
            (None, &any, 0),
            (Some(0), &keycloak, 0),
            (Some(7), &any, 7),
        ] {
            let settings = LoginLimitSettings {
                account_sessions_per_minute: set,
                ..LoginLimitSettings::default()
            };
            assert_eq!(
                settings.before([iam]).account_sessions.most,
                most,
                "{set:?}"
            );
        }
    }

    #[test]
    fn slow_rate_begins_after_fifty_failures_unless_failures_are_unlimited() {
        let slow = |account_failures| {
            let settings = LoginLimitSettings {
                account_failures,
                ..LoginLimitSettings::default()
            };
            settings
                .before([&IamSettings::new(SampleSettings::default())])
                .account_slow
        };
        let interval = Duration::from_secs(900);
        for (account_failures, after) in [(10, 50), (0, 0)] {
            assert_eq!(slow(account_failures), SlowRate { after, interval });
        }
    }
}
