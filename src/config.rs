//! The settings: built-in defaults, then the TOML file, then the environment. They are read into
//! types and validated at start, and one message has every problem.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};
use thiserror::Error;

mod audit;
mod cache;
mod effective;
mod errors;
mod http;
mod iam;
mod keys;
mod known;
mod layers;
mod loading;
mod log;
mod login_limits;
mod management;
mod origin;
mod permissions;
mod public_url;
mod reading;
mod redis;
mod safety;
mod section;
mod server_url;
mod session;
mod source;
mod token;
mod traces;
mod upstream;

#[cfg(test)]
mod example_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod safety_tests;
#[cfg(test)]
mod tests;

pub(crate) use audit::{AuditDestination, AuditSettings};
pub(crate) use errors::ConfigErrors;
pub use http::{AllowedOrigin, HttpSettings};
pub(crate) use iam::{IamOptions, IamSection};
pub use iam_adapters::registry::{IamSettings, Registry};
pub(crate) use keys::KeySettings;
pub(crate) use known::is_own_variable;
pub use log::LogFormat;
pub(crate) use log::LogSettings;
pub use permissions::PermissionSourceKind;
pub(crate) use safety::check_reach;
pub(crate) use source::{NamedFiles, SettingsSource};
#[cfg(test)]
pub(crate) use tests::sample;
pub(crate) use traces::TraceSettings;

use cache::CacheSettings;
use login_limits::LoginLimitSettings;
use management::ManagementSettings;
use permissions::PermissionSettings;
use public_url::PublicUrl;
use redis::{RedisSettings, SentinelSettings};
use session::SessionSettings;
use token::TokenSettings;
use upstream::UpstreamSettings;

use known::join;

/// The most for `stale_if_error`. A permission that is removed during an outage of the IAM is granted
/// during that time.
const STALE_IF_ERROR_MAX: Duration = Duration::from_secs(15 * 60);

/// All settings. The types ignore unknown keys, because [`load`] refuses them before.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Whether unsafe settings for development are allowed.
    #[serde(deserialize_with = "iam_adapters::choice::deserialize")]
    pub environment: Environment,
    /// How much older than its freshness cached data may be while the IAM does not respond.
    #[serde(with = "humantime_serde")]
    pub stale_if_error: Duration,
    /// `[http]`: the public listener.
    pub http: HttpSettings,
    /// `[management]`: the management listener.
    pub management: ManagementSettings,
    /// `[session]`: sessions.
    pub session: SessionSettings,
    /// `[login_limits]`: the limits of logins.
    pub login_limits: LoginLimitSettings,
    /// `[redis]`: what replicas share; `None`: nothing. Logouts at other replicas then take effect
    /// through the IAM, within `session.freshness`.
    pub redis: Option<RedisSettings>,
    /// `[permissions]`: permissions of users.
    pub permissions: PermissionSettings,
    /// `[token]`: access tokens.
    pub token: TokenSettings,
    /// `[keys]`: the keys that sign and seal.
    pub keys: KeySettings,
    /// `[upstream]`: calls to the IAM.
    pub upstream: UpstreamSettings,
    /// `[cache]`: cached data.
    pub cache: CacheSettings,
    /// `[log]`: the log.
    pub log: LogSettings,
    /// `[audit]`: the audit log.
    pub audit: AuditSettings,
    /// `[traces]`: traces of requests.
    pub traces: TraceSettings,
    /// `[iam.…]`: the IAMs; the service needs one. Read separately, because their names are free and their
    /// types differ.
    #[serde(skip)]
    pub iams: Vec<IamSection>,
    /// The files that the settings name.
    #[serde(skip)]
    pub files: NamedFiles,
}

/// The purpose of the gateway.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, Serialize, VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "lowercase")]
pub enum Environment {
    /// For development: built-in users and ephemeral keys are allowed on loopback addresses.
    #[default]
    Development,
    /// For real users: unsafe settings are refused.
    Production,
}

/// Every problem of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the configuration cannot be used:\n  - {}", problems.join("\n  - "))]
pub struct InvalidSettings {
    /// One line for each: the key of the setting, the problem, and where it was set. No line contains a
    /// secret.
    pub problems: Vec<String>,
}

/// Reads the settings from the file, if one is given, and from `AUTH_GATEWAY__SECTION__KEY` in the
/// environment, which overrides the file.
///
/// # Errors
///
/// [`InvalidSettings`] with every problem.
pub fn load(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
) -> Result<Settings, InvalidSettings> {
    let source = SettingsSource::new(file, environment, registry);
    let loaded = source.load_with(|_, _, _| Some(()))?;
    Ok(loaded.0)
}

impl Settings {
    /// The names of the IAMs.
    #[must_use]
    pub fn iam_names(&self) -> Vec<&str> {
        self.iams.iter().map(|iam| iam.name.as_str()).collect()
    }

    /// The longest `max_lifetime` of an IAM: for so long, sessions of a sealing key may be valid.
    #[must_use]
    pub fn session_max_lifetime(&self) -> Duration {
        let of_iams = self.iams.iter().map(|iam| iam.session.max_lifetime);
        of_iams.max().unwrap_or(self.session.max_lifetime)
    }

    /// Sets what is not set and depends on other settings, so that it is shown as it is in effect.
    fn derive_defaults(&mut self) {
        let public_url = &self.http.public_url;
        self.token.default_audience(public_url);
        if let Some(redis) = &mut self.redis {
            redis.default_prefix(public_url);
        }
        self.login_limits.derive_defaults(&mut self.iams);
        if let [only] = &mut *self.iams {
            only.options.default = true;
        }
        for iam in &mut self.iams {
            (iam.options.r#type).get_or_insert_with(|| iam.adapter.name().to_owned());
        }
    }

    fn check(&self, problems: &mut ConfigErrors) {
        problems.within(
            "stale_if_error",
            self.stale_if_error,
            &(Duration::ZERO..=STALE_IF_ERROR_MAX),
        );
        self.http.check(problems);
        (self.session).check_ranges(|name| join("session", name), problems);
        self.upstream.check_outlived_by(
            "session.freshness",
            self.session.freshness,
            self.permissions.decision_deadline(),
            problems,
        );
        (self.login_limits).check_ranges(|name| join("login_limits", name), problems);
        let production = self.environment == Environment::Production;
        self.permissions.check(&self.upstream, production, problems);
        self.token.check(problems);
        self.keys.check(problems);
        (self.upstream).check_ranges(|name| join("upstream", name), problems);
        iam::check(self, problems);
        (self.cache).check_ranges(|name| join("cache", name), problems);
        self.log.check(problems);
        self.audit.check(problems);
        self.check_listeners(problems);
        safety::check(self, problems);
    }

    fn check_listeners(&self, problems: &mut ConfigErrors) {
        let (public, management) = (self.http.listen, self.management.listen);
        let overlap = public.ip() == management.ip()
            || public.ip().is_unspecified()
            || management.ip().is_unspecified();
        if public.port() != 0 && public.port() == management.port() && overlap {
            problems.add(
                "management.listen",
                format!("{management} is taken by http.listen ({public})"),
            );
        }
    }
}
