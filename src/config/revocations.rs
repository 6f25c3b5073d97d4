//! `[revocations]`: how replicas exchange revocations.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use url::{Host, Url};

use super::problems::Problems;

/// The default port of Redis.
const PORT: u16 = 6379;

/// A replica that issues no tokens for longer counts as broken.
const CATCH_UP_DEADLINE_MAX: Duration = Duration::from_secs(600);

/// How replicas exchange revocations.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RevocationSettings {
    /// `[revocations.redis]`: the Redis of the replicas; `None`: logouts at other replicas take effect
    /// through the IAM, within `session.freshness`.
    pub redis: Option<RedisSettings>,
}

/// The section `[revocations.redis]`.
#[derive(Clone, Deserialize)]
pub struct RedisSettings {
    /// `redis://host:port/database`, or `rediss://` for TLS.
    pub url: Url,
    /// The user; `None`: the default user.
    #[serde(default)]
    pub username: Option<String>,
    /// The user's password, if any.
    #[serde(default)]
    pub password: Option<SecretString>,
    /// The file that holds the password; [`load`](super::load) replaces it by `password`.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// PEM certificates of the authorities to trust, instead of the machine's own.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// How long a gateway that starts issues no tokens if it cannot read the revocations in Redis.
    #[serde(with = "humantime_serde", default = "catch_up_deadline")]
    pub catch_up_deadline: Duration,
}

/// Longer than Redis needs for a million revocations, and acceptable for a rollout.
const fn catch_up_deadline() -> Duration {
    Duration::from_secs(10)
}

/// Without credentials, path and query of the address.
impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSettings")
            .field("host", &self.host())
            .field("tls", &self.has_tls())
            .finish_non_exhaustive()
    }
}

impl RedisSettings {
    /// Whether the connection uses TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.url.scheme() == "rediss"
    }

    /// The host name or IP address.
    #[must_use]
    pub fn host(&self) -> String {
        match self.url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.url.port().unwrap_or(PORT)
    }

    /// The number of the database; `None` if the path of the address is not one.
    #[must_use]
    pub fn database(&self) -> Option<i64> {
        match self.url.path() {
            "" | "/" => Some(0),
            path => path.strip_prefix('/')?.parse::<u16>().ok().map(i64::from),
        }
    }

    fn is_loopback(&self) -> bool {
        let host = self.host();
        let address = host.parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }

    pub(super) fn check(&self, production: bool, problems: &mut Problems) {
        let url = "revocations.redis.url";
        if !matches!(self.url.scheme(), "redis" | "rediss") || self.host().is_empty() {
            problems.add(url, "must begin with redis:// or rediss:// and name a host");
        }
        if !self.url.username().is_empty() || self.url.password().is_some() {
            problems.add(
                url,
                "must hold no credentials: username and password have settings of their own",
            );
        }
        let extra = self.url.query().is_some() || self.url.fragment().is_some();
        if extra || self.database().is_none() {
            let problem = "must have nothing after the host and port but /, or / and a number";
            problems.add(url, problem);
        }
        if self.ca_file.is_some() && !self.has_tls() {
            problems.add("revocations.redis.ca_file", "is only used with rediss://");
        }
        problems.duration_within(
            "revocations.redis.catch_up_deadline",
            self.catch_up_deadline,
            Duration::from_millis(1)..=CATCH_UP_DEADLINE_MAX,
        );
        if production && !self.has_tls() && !self.is_loopback() {
            problems.add(url, "must begin with rediss:// in production: TLS");
        }
        if production && self.password.is_none() {
            problems.add(
                "revocations.redis.password",
                "or password_file is needed in production: a client of Redis could end sessions",
            );
        }
    }
}

#[cfg(test)]
mod tests;
