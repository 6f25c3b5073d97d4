//! The settings: built-in defaults, then the TOML file, then the environment, read into real types
//! and refused whole, with every problem in one message, before anything else begins.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

mod cache;
mod host_name;
mod http;
mod keys;
mod known;
mod layers;
mod list;
mod log;
mod login_limits;
mod management;
mod permissions;
mod problems;
mod public_url;
mod reading;
mod revocations;
mod safety;
mod session;
mod token;
mod upstream;

#[cfg(test)]
mod example_tests;
#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod safety_tests;
#[cfg(test)]
pub(crate) mod sample;

pub use cache::CacheSettings;
pub use host_name::{HostName, InvalidHostName};
pub use http::{HttpSettings, TlsSettings};
pub use iam_adapters::registry::{IamSettings, Registry};
pub use keys::KeySettings;
pub use log::{LogFormat, LogSettings};
pub use login_limits::LoginLimitSettings;
pub use management::ManagementSettings;
pub use permissions::PermissionSettings;
pub(crate) use problems::Problems;
pub use public_url::{InvalidPublicUrl, PublicUrl};
pub use revocations::{RedisSettings, RevocationSettings};
pub use session::SessionSettings;
pub use token::TokenSettings;
pub use upstream::UpstreamSettings;

use known::Known;
use layers::Layers;

/// The longest that old knowledge may be stretched over an outage of the IAM. Whoever loses a right
/// during an outage keeps it for so long.
const STALE_IF_ERROR_MAX: Duration = Duration::from_secs(15 * 60);

/// Everything that can be set. The types ignore unknown keys, because [`load`] has refused them
/// before it reads the types.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether shortcuts for trying things out are allowed.
    pub environment: Environment,
    /// How much older than its freshness knowledge may be while the IAM does not answer; zero: not
    /// at all.
    #[serde(with = "humantime_serde")]
    pub stale_if_error: Duration,
    /// `[http]`: the public listener.
    pub http: HttpSettings,
    /// `[management]`: the listener for health and metrics.
    pub management: ManagementSettings,
    /// `[session]`: what login creates.
    pub session: SessionSettings,
    /// `[login_limits]`: how many logins may be tried.
    pub login_limits: LoginLimitSettings,
    /// `[revocations]`: how replicas learn of each other's logouts.
    pub revocations: RevocationSettings,
    /// `[permissions]`: what users may do.
    pub permissions: PermissionSettings,
    /// `[token]`: the access tokens.
    pub token: TokenSettings,
    /// `[keys]`: what signs and seals.
    pub keys: KeySettings,
    /// `[upstream]`: how the IAM is called.
    pub upstream: UpstreamSettings,
    /// `[cache]`: what is remembered between calls.
    pub cache: CacheSettings,
    /// `[log]`: what is written about all this.
    pub log: LogSettings,
    /// `[iam.…]`: the IAM behind the gateway. Read apart from the rest, because its section's name
    /// chooses its type.
    #[serde(skip)]
    pub iam: IamSettings,
}

/// What the gateway is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Environment {
    /// Trying things out: built-in users and keys made at start are fine, on this machine alone.
    #[default]
    Development,
    /// Real users: everything unsafe is refused.
    Production,
}

impl Environment {
    /// The name, as in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Production => "production",
        }
    }
}

impl TryFrom<String> for Environment {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        match name.as_str() {
            "development" => Ok(Self::Development),
            "production" => Ok(Self::Production),
            _ => Err("expected `development` or `production`"),
        }
    }
}

/// Why the gateway does not start: all that is wrong with the settings, not just the first of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the configuration cannot be used:\n  - {}", problems.join("\n  - "))]
pub struct InvalidSettings {
    /// One line for each: the setting's key, what is wrong, and where it was set. No line shows a
    /// secret.
    pub problems: Vec<String>,
}

/// Reads the settings from the file, where one is given, and from `AUTH_GATEWAY__SECTION__KEY`
/// in the environment, which stands above the file.
///
/// # Errors
///
/// [`InvalidSettings`] with every problem that could be found.
pub fn load(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
) -> Result<Settings, InvalidSettings> {
    load_with(file, environment, registry, |_, _| Some(())).map(|(settings, ())| settings)
}

/// Reads the settings as [`load`] does, and makes something of them: all that is wrong with either
/// is told together. What cannot be read stands at its default meanwhile.
///
/// # Errors
///
/// [`InvalidSettings`] with every problem that could be found.
pub(crate) fn load_with<T>(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
    prepare: impl FnOnce(&Settings, &mut Problems) -> Option<T>,
) -> Result<(Settings, T), InvalidSettings> {
    let known = Known::new(registry);
    let mut problems = Problems::default();
    let layers = Layers::gather(file, environment, &known, &mut problems);
    let loaded = reading::settings(&layers, registry, &mut problems).and_then(|mut settings| {
        settings.check(&mut problems);
        if let Some(file) = &layers.file {
            safety::check_file(&settings, file, &mut problems);
        }
        settings.token.default_audience(&settings.http.public_url);
        let prepared = prepare(&settings, &mut problems)?;
        Some((settings, prepared))
    });
    match loaded {
        Some(loaded) if problems.is_empty() => Ok(loaded),
        _ => Err(InvalidSettings {
            problems: problems.into_lines(Some(&layers)),
        }),
    }
}

impl Settings {
    fn check(&self, problems: &mut Problems) {
        problems.duration_within(
            "stale_if_error",
            self.stale_if_error,
            Duration::ZERO..=STALE_IF_ERROR_MAX,
        );
        self.http.check(problems);
        self.session.check(&self.upstream, problems);
        self.login_limits.check(problems);
        self.permissions.check(&self.upstream, problems);
        self.token.check(problems);
        self.keys.check(problems);
        self.upstream.check(problems);
        self.cache.check(problems);
        self.log.check(problems);
        self.check_listeners(problems);
        safety::check(self, problems);
    }

    fn check_listeners(&self, problems: &mut Problems) {
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
