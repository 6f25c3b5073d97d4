//! One call to the management listener of a gateway on this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::client::{Response, UpstreamClient};
use iam_adapters::clock::SystemClock;
use tokio::time::timeout;
use url::Url;

use super::error::UserError;
use super::runtime;

/// The problem of a response that no gateway sends.
pub(super) const NOT_A_GATEWAY: &str = "not the response of a gateway";

/// Runs `call` with a client. The inner error is why there is no response, which is `late` after the deadline.
pub(super) fn call(
    deadline: Duration,
    late: &str,
    call: impl AsyncFnOnce(UpstreamClient) -> Result<Response, IamError>,
) -> anyhow::Result<Result<Response, String>> {
    let clock = Arc::new(SystemClock::default());
    let client = UpstreamClient::new(deadline, None, None, clock)?;
    let response = runtime()?.block_on(async { timeout(deadline, call(client)).await });
    Ok(match response {
        Err(_) => Err(late.to_owned()),
        Ok(Err(IamError::Unreachable(why) | IamError::Disconnected(why))) => {
            Err(format!("{why:#}"))
        }
        Ok(response) => response.map_err(|error| format!("{error:#}")),
    })
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
