//! `[http]`: the public listener.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use actix_web::http::header::HeaderValue;
use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::errors::ConfigErrors;
use super::known::join;
use super::public_url::PublicUrl;
use super::section::section;

/// The most for `workers`.
const WORKERS_MAX: usize = 1024;

section! {
    /// The public listener.
    pub struct HttpSettings {
        /// The address; port 0: any free port.
        pub listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        /// Threads that serve requests.
        pub workers: usize = thread::available_parallelism()
            .map_or(2, NonZero::get)
            .min(WORKERS_MAX), in 1..=WORKERS_MAX;
        /// The most open connections. Each worker has an equal share of them.
        pub max_connections: usize = 10_000, in 1..=1_000_000;
        /// The URL of the gateway for clients; the issuer of the tokens.
        pub public_url: PublicUrl = PublicUrl::default();
        /// `[http.tls]`.
        pub tls: TlsSettings = TlsSettings::default();
        /// `[http.cors]`.
        pub cors: CorsSettings = CorsSettings::default();
        /// The proxies whose `X-Forwarded-For` header is used.
        #[serde(deserialize_with = "iam_adapters::list::deserialize")]
        pub trusted_proxies: Vec<TrustedProxy> = Vec::new();
        /// Whether the response to a fault of the IAM is 502, 503 or 504 in place of 500.
        pub precise_backend_status: bool = false;
        /// How long requests in progress may take to finish after the signal to stop.
        #[serde(with = "humantime_serde")]
        pub shutdown_deadline: Duration = Duration::from_secs(10),
            in Duration::from_millis(1)..=Duration::from_secs(3600);
        /// How long new requests are still accepted after readiness became `not_ready`, so that load
        /// balancers can stop sending them.
        #[serde(with = "humantime_serde")]
        pub shutdown_delay: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_secs(600);
    }
}

impl HttpSettings {
    /// The scheme of the listener's address.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.tls.files().map_or("http", |_| "https")
    }

    /// The networks of the trusted proxies.
    #[must_use]
    pub fn trusted_networks(&self) -> Vec<IpNet> {
        self.trusted_proxies.iter().map(|proxy| proxy.0).collect()
    }

    pub(super) fn check(&self, problems: &mut ConfigErrors) {
        self.check_ranges(|name| join("http", name), problems);
        self.tls.check(problems);
    }
}

/// TLS on the public listener: both files, or neither.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct TlsSettings {
    /// The certificate chain, PEM.
    pub certificate_file: Option<PathBuf>,
    /// Its private key, PEM.
    pub key_file: Option<PathBuf>,
}

impl TlsSettings {
    /// The certificate chain and its key, if TLS is on.
    #[must_use]
    pub fn files(&self) -> Option<(&Path, &Path)> {
        Some((self.certificate_file.as_deref()?, self.key_file.as_deref()?))
    }

    fn check(&self, problems: &mut ConfigErrors) {
        let (certificate, key) = ("http.tls.certificate_file", "http.tls.key_file");
        match (&self.certificate_file, &self.key_file) {
            (Some(_), None) => problems.add(certificate, format!("requires {key}")),
            (None, Some(_)) => problems.add(key, format!("requires {certificate}")),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}

/// Pages of other origins.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct CorsSettings {
    /// The origins whose pages may call the three endpoints and read the responses.
    #[serde(deserialize_with = "iam_adapters::list::deserialize")]
    pub allowed_origins: Vec<AllowedOrigin>,
}

/// An origin as browsers send it (RFC 6454 section 6.2): lower case, no default port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllowedOrigin(String);

impl AllowedOrigin {
    /// Whether it is the value of this `Origin`.
    pub(crate) fn is(&self, origin: &HeaderValue) -> bool {
        origin.as_bytes() == self.0.as_bytes()
    }

    pub(super) fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }
}

impl TryFrom<&str> for AllowedOrigin {
    type Error = String;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        let url = Url::parse(text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && !url.authority().contains('*')
        });
        let origin = url.map(|url| url.origin().ascii_serialization());
        match origin {
            Some(origin) if origin == text => Ok(Self(origin)),
            Some(origin) => Err(format!("must be written as browsers send it, {origin:?}")),
            None => Err(
                "not an origin such as https://app.example.com or http://localhost:3000; \
                         `*` and `null` are not allowed"
                    .to_owned(),
            ),
        }
    }
}

/// A network of proxies whose `X-Forwarded-For` header is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedProxy(IpNet);

impl Serialize for TrustedProxy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl TryFrom<&str> for TrustedProxy {
    type Error = &'static str;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        text.parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
            .map(|network| Self(canonical(network).trunc()))
            .map_err(|_| "not a network such as 10.0.0.0/8, nor an address")
    }
}

/// A network of IPv4-mapped addresses (RFC 4291 section 2.5.5.2) as one of IPv4, because those of clients are.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED: u8 = 96;
    let IpNet::V6(mapped) = network else {
        return network;
    };
    let address = mapped.addr().to_ipv4_mapped();
    let length = mapped.prefix_len().checked_sub(MAPPED);
    let canonical = address
        .zip(length)
        .map(|(address, length)| Ipv4Net::new(address, length));
    canonical.and_then(Result::ok).map_or(network, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_proxy_is_a_network_or_an_address() {
        for (text, network) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
            ("::/0", "::/0"),
        ] {
            let proxy = TrustedProxy::try_from(text).expect(text);
            assert_eq!(proxy.0.to_string(), network);
        }
    }

    #[test]
    fn allowed_origin_is_written_as_browsers_send_it() {
        for text in [
            "https://app.example.com",
            "http://localhost:3000",
            "https://[2001:db8::1]:8443",
            "https://xn--bcher-kva.example",
        ] {
            let origin = AllowedOrigin::try_from(text).expect(text);
            assert_eq!(origin.0, text);
        }
        for (text, written) in [
            ("https://app.example.com/", "\"https://app.example.com\""),
            (
                "https://app.example.com/login",
                "\"https://app.example.com\"",
            ),
            ("https://app.example.com?a", "\"https://app.example.com\""),
            ("https://App.Example.com", "\"https://app.example.com\""),
            ("https://app.example.com:443", "\"https://app.example.com\""),
            (
                "https://user:canary@app.example.com",
                "\"https://app.example.com\"",
            ),
            (
                "https://bücher.example",
                "\"https://xn--bcher-kva.example\"",
            ),
            ("", "not an origin"),
            ("*", "not an origin"),
            ("null", "not an origin"),
            ("app.example.com", "not an origin"),
            ("https://", "not an origin"),
            ("https://*.example.com", "not an origin"),
            ("ftp://app.example.com", "not an origin"),
            ("capacitor://localhost", "not an origin"),
        ] {
            let refused = AllowedOrigin::try_from(text).expect_err(text);
            assert!(refused.contains(written), "{text}: {refused}");
            assert!(!refused.contains("canary"), "{refused}");
        }
    }

    #[test]
    fn trusted_proxy_that_is_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0",
            "localhost",
            "10.0.0.0/8/8",
            "fe80::1%eth0",
        ] {
            assert!(TrustedProxy::try_from(text).is_err(), "{text:?}");
        }
    }
}
