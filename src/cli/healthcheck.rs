//! `healthcheck`: whether the gateway on this machine should get traffic, for containers without a
//! shell.

use std::fmt;
use std::time::Duration;

use iam_adapters::IamError;
use serde::Deserialize;

use super::management_call::{call, management_url};
use super::{ConfigFile, Exit, Invocation};

const PATH: &str = "/health/ready";

/// Readiness waits for nothing.
const DEADLINE: Duration = Duration::from_secs(3);

/// Asks the running gateway of the settings for its readiness, and writes the reasons.
///
/// # Errors
///
/// The settings are wrong, or no runtime can be started.
pub(super) fn healthcheck(
    config: &ConfigFile,
    invocation: &mut Invocation<'_>,
) -> anyhow::Result<Exit> {
    let settings = invocation.settings(config)?;
    let url = management_url(settings.management.listen, PATH)?;
    let problem = match call(DEADLINE, async |client| client.send(client.get(&url)).await)? {
        None => "no response".to_owned(),
        Some(Err(IamError::Unreachable(why))) => format!("{why:#}"),
        Some(Err(other)) => format!("{other:#}"),
        Some(Ok(response)) => match serde_json::from_slice::<ReadinessReport>(&response.body) {
            Ok(report) if response.status.as_u16() == 200 => {
                writeln!(invocation.out, "{report}")?;
                return Ok(Exit::Ok);
            }
            Ok(report) => report.to_string(),
            Err(_) => "not the response of a gateway".to_owned(),
        },
    };
    writeln!(invocation.err, "auth-gateway: {url}: {problem}")?;
    Ok(Exit::Unavailable)
}

/// The response of `/health/ready`, as far as it is written.
#[derive(Deserialize)]
struct ReadinessReport {
    status: String,
    reasons: Vec<ReadinessReason>,
}

#[derive(Deserialize)]
struct ReadinessReason {
    code: String,
}

/// The status and the codes of the reasons for it.
impl fmt::Display for ReadinessReport {
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
