//! The URL of a server that the gateway calls.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use url::{Host, ParseError, Url};

/// The URL of a server that the gateway calls. `Debug` shows neither credentials nor path and query, and
/// the error of a text that is none does not quote it.
#[derive(Clone, derive_more::Debug, derive_more::Deref, Deserialize, Serialize)]
#[debug("{:?}", self.host_name())]
#[serde(try_from = "String")]
pub struct ServerUrl(Url);

impl ServerUrl {
    /// The host name or IP address, the latter without brackets.
    pub fn host_name(&self) -> String {
        match self.0.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        }
    }

    /// Whether the server runs on this machine.
    pub fn is_local(&self) -> bool {
        let host = self.host_name();
        let address = host.parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

impl TryFrom<String> for ServerUrl {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Url::parse(&text).map(Self)
    }
}
