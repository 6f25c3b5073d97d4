//! `[management]`: the listener for those who run the gateway.

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;

/// The listener for health, metrics and, where the mock runs, its controls.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ManagementSettings {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
}

impl Default for ManagementSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
        }
    }
}
