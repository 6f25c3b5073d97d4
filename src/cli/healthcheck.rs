//! `healthcheck`: whether the gateway on this machine should get traffic, for containers without a
//! shell.

use std::time::Duration;

use serde::Deserialize;

use super::management_call::{NOT_A_GATEWAY, call, management_url};
use super::{ConfigFile, Exit, Invocation};

const PATH: &str = "/health/ready";

/// Readiness waits for nothing.
const DEADLINE: Duration = Duration::from_secs(3);

/// Asks the running gateway of the settings for its readiness, and writes the reasons.
pub(super) fn healthcheck(
    config: &ConfigFile,
    invocation: &mut Invocation<'_>,
) -> anyhow::Result<Exit> {
    let settings = invocation.settings_for("management.listen", config)?;
    let url = management_url(settings.management.listen, PATH)?;
    let response = call(DEADLINE, "no response", async |client| {
        client.send(client.get(&url)).await
    })?;
    let report = response.and_then(|response| {
        let report = serde_json::from_slice::<ReadinessReport>(&response.body);
        let report = report.map_err(|_| NOT_A_GATEWAY.to_owned())?;
        match response.status.as_u16() {
            200 => Ok(report.line()),
            _ => Err(report.line()),
        }
    });
    match report {
        Ok(line) => {
            writeln!(invocation.out, "{line}")?;
            Ok(Exit::Ok)
        }
        Err(problem) => {
            writeln!(invocation.err, "auth-gateway: {url}: {problem}")?;
            Ok(Exit::Unavailable)
        }
    }
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

impl ReadinessReport {
    /// The status and the codes of the reasons for it.
    fn line(self) -> String {
        let codes: Vec<_> = self.reasons.into_iter().map(|reason| reason.code).collect();
        match &*codes {
            [] => self.status,
            codes => format!("{}: {}", self.status, codes.join(", ")),
        }
    }
}
