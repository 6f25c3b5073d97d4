//! `healthcheck`: whether the gateway on this machine should get traffic, for containers without a
//! shell.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::client::{ClientSettings, UpstreamClient};
use iam_adapters::clock::SystemClock;
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;

use super::Exit;
use super::error::UserError;
use crate::config::{self, Registry};

const PATH: &str = "/health/ready";

/// Readiness waits for nothing.
const DEADLINE: Duration = Duration::from_secs(3);

/// Asks the running gateway of the settings for its readiness, and writes the reasons.
///
/// # Errors
///
/// The settings are wrong, or no runtime can be started.
pub(super) fn healthcheck(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let settings = config::load(file, environment, registry).map_err(UserError::from)?;
    let url = management_url(settings.management.listen, PATH)?;
    let connection = ClientSettings {
        connect_deadline: DEADLINE,
        ca_file: None,
    };
    let client = UpstreamClient::new(&connection, Arc::new(SystemClock::default()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let request = client.get(&url);
    let answer = runtime.block_on(async { timeout(DEADLINE, client.send(request)).await });
    let problem = match answer {
        Err(_) => "no response".to_owned(),
        Ok(Err(fault)) => fault.to_string(),
        Ok(Ok(response)) => match serde_json::from_slice::<Report>(&response.body) {
            Ok(report) if response.status.as_u16() == 200 => {
                writeln!(out, "{report}")?;
                return Ok(Exit::Ok);
            }
            Ok(report) => report.to_string(),
            Err(_) => "not the response of a gateway".to_owned(),
        },
    };
    writeln!(err, "auth-gateway: {url}: {problem}")?;
    Ok(Exit::Unavailable)
}

/// The response of `/health/ready`, as far as it is written.
#[derive(Deserialize)]
struct Report {
    status: String,
    reasons: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    code: String,
}

/// The status and the codes of the reasons for it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        let mut separator = ": ";
        for reason in &self.reasons {
            write!(f, "{separator}{}", reason.code)?;
            separator = ", ";
        }
        Ok(())
    }
}

/// The address of a path on the management listener of a gateway on this machine.
pub(super) fn management_url(listen: SocketAddr, path: &str) -> anyhow::Result<Url> {
    if listen.port() == 0 {
        let problem =
            "management.listen has port 0; the command needs the port of the running gateway";
        return Err(UserError::Request(problem.to_owned()).into());
    }
    let mut address = listen;
    if listen.ip().is_unspecified() {
        address.set_ip(match listen.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(Url::parse(&format!("http://{address}{path}"))?)
}
