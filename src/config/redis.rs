//! `[redis]`: what replicas share through a Redis.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize, Serializer};

use super::PublicUrl;
use super::errors::ConfigErrors;
use super::server_url::ServerUrl;
use auth_gateway_replication::{Address, Sentinels};

/// The default ports of Redis and of Sentinel.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

/// Longer than any public URL that is in use, and a small part of each key.
const PREFIX_MAX: usize = 128;

/// A replica that issues no tokens for longer counts as broken.
const CATCH_UP_DEADLINE_MAX: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct RedisSettings {
    /// `redis://host:port/database`, or `rediss://` for TLS.
    pub url: ServerUrl,
    /// The user; `None`: the default user.
    pub username: Option<String>,
    #[serde(serialize_with = "iam_adapters::secret_file::serialize_hidden")]
    pub password: Option<SecretString>,
    pub password_file: Option<PathBuf>,
    /// PEM certificates of the authorities to trust, instead of the machine's own.
    pub ca_file: Option<PathBuf>,
    /// Finds the primary Redis; `None`: `url` is its address.
    pub sentinel: Option<SentinelSettings>,
    /// The beginning of each key; `None`: derived from the public URL. Gateways with different public
    /// URLs then share nothing, although they use one Redis.
    pub prefix: Option<String>,
    /// Whether replicas share what the IAM responded about sessions.
    #[serde(default = "share_knowledge")]
    pub share_knowledge: bool,
    /// How long a gateway that starts issues no tokens if it cannot read the revocations in Redis.
    #[serde(with = "humantime_serde", default = "catch_up_deadline")]
    pub catch_up_deadline: Duration,
}

const fn share_knowledge() -> bool {
    true
}

/// Longer than Redis needs for a million revocations, and acceptable for a rollout.
const fn catch_up_deadline() -> Duration {
    Duration::from_secs(10)
}

/// The section `[redis.sentinel]`: the Sentinels that know which Redis is the primary.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct SentinelSettings {
    /// `host` or `host:port` of each Sentinel. They are asked in this order.
    #[serde(default, deserialize_with = "iam_adapters::list::deserialize")]
    pub addresses: Vec<SentinelAddress>,
    pub master: String,
    /// The user at the Sentinels; `None`: the default user.
    pub username: Option<String>,
    #[serde(serialize_with = "iam_adapters::secret_file::serialize_hidden")]
    pub password: Option<SecretString>,
    pub password_file: Option<PathBuf>,
}

/// The address of a Sentinel: a host name or an IP address, and the port.
#[derive(Debug, Clone)]
pub struct SentinelAddress(String, u16);

impl Serialize for SentinelAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(host, port) = self;
        match host.parse::<Ipv6Addr>() {
            Ok(address) => serializer.collect_str(&SocketAddrV6::new(address, *port, 0, 0)),
            Err(_) => serializer.collect_str(&format_args!("{host}:{port}")),
        }
    }
}

impl TryFrom<&str> for SentinelAddress {
    type Error = &'static str;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        let invalid = "expected host or host:port";
        let url = ServerUrl::try_from(format!("redis://{text}")).map_err(|_| invalid)?;
        let host = url.host_name();
        let rest = url.as_str().strip_prefix("redis://").unwrap_or_default();
        if host.is_empty() || rest.contains(['/', '?', '#', '@']) {
            return Err(invalid);
        }
        Ok(Self(host, url.port().unwrap_or(SENTINEL_PORT)))
    }
}

impl RedisSettings {
    /// The address, with the content of `ca_file`. The other settings were checked.
    pub(crate) fn address(&self, authorities: Option<Vec<u8>>) -> Address {
        let sentinels = self.sentinel.as_ref().map(|settings| Sentinels {
            addresses: (settings.addresses.iter())
                .map(|SentinelAddress(host, port)| (host.clone(), *port))
                .collect(),
            master: settings.master.clone(),
            username: settings.username.clone(),
            password: settings.password.clone(),
        });
        Address {
            host: self.url.host_name(),
            port: self.url.port().unwrap_or(PORT),
            tls: self.has_tls(),
            database: self.database().unwrap_or_default(),
            username: self.username.clone(),
            password: self.password.clone(),
            authorities,
            sentinels,
            prefix: self.prefix.clone().unwrap_or_default(),
        }
    }

    fn has_tls(&self) -> bool {
        self.url.scheme() == "rediss"
    }

    /// The number of the database; `None` if the path of the address is not one.
    fn database(&self) -> Option<i64> {
        match self.url.path() {
            "" | "/" => Some(0),
            path => path.strip_prefix('/')?.parse::<u16>().ok().map(i64::from),
        }
    }

    /// Sets the beginning of each key, without a colon at its end.
    pub(super) fn default_prefix(&mut self, public_url: &PublicUrl) {
        let url = public_url.issuer();
        let without_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        (self.prefix).get_or_insert_with(|| format!("auth-gateway:{without_scheme}"));
    }

    pub(super) fn check(&self, production: bool, problems: &mut ConfigErrors) {
        let url = "redis.url";
        if !matches!(self.url.scheme(), "redis" | "rediss") || self.url.host_name().is_empty() {
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
            problems.add("redis.ca_file", "is only used with rediss://");
        }
        if let Some(prefix) = &self.prefix {
            let fits = (1..=PREFIX_MAX).contains(&prefix.len());
            if !fits || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
                let problem = format!("must have 1 to {PREFIX_MAX} visible ASCII characters");
                problems.add("redis.prefix", problem);
            }
        }
        if let Some(sentinel) = &self.sentinel {
            if sentinel.addresses.is_empty() {
                problems.add("redis.sentinel.addresses", "must not be empty");
            }
            if sentinel.master.is_empty() {
                problems.add("redis.sentinel.master", "must not be empty");
            }
        }
        problems.within(
            "redis.catch_up_deadline",
            self.catch_up_deadline,
            &(Duration::from_millis(1)..=CATCH_UP_DEADLINE_MAX),
        );
        // Sentinels can name a primary on another machine.
        let is_local = self.sentinel.is_none() && self.url.is_local();
        if production && !self.has_tls() && !is_local {
            problems.add(url, "must begin with rediss:// in production: TLS");
        }
        if production && self.password.is_none() {
            problems.add(
                "redis.password",
                "or password_file is needed in production: a client of Redis could end sessions",
            );
        }
    }
}

#[cfg(test)]
mod tests;
