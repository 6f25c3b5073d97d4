//! The gateway as a process with an environment, a log and an exit code.

use std::net::SocketAddr;
use std::process::Command;

use test_support::client::Client;
use test_support::program::{Executable, Program};
use test_support::wait::until;

use crate::fixture::LONG_DEADLINES;
use crate::metrics::iam_calls;

const GATEWAY: Executable = Executable {
    path: env!("CARGO_BIN_EXE_auth-gateway-dev"),
};

/// The program with these arguments and settings.
pub(crate) fn gateway(arguments: &[&str], settings: &[(&str, &str)]) -> Command {
    GATEWAY.command(arguments, &[&LONG_DEADLINES[..], settings].concat())
}

/// Settings as arguments.
pub(crate) fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    let settings = settings.iter();
    settings
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

/// A gateway that serves.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) client: Client,
    pub(crate) program: Program,
    pub(crate) management: SocketAddr,
}

impl Process {
    /// Starts it on free ports.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let one_worker = [("http.workers", "1")];
        let mut program = GATEWAY.serve(&[&LONG_DEADLINES[..], &one_worker, settings].concat());
        let (public, management) = program.addresses();
        Self {
            client: Client::new(public, management),
            program,
            management,
        }
    }

    /// Starts it, and waits for its only probe of the IAM.
    pub(crate) async fn start_and_probe(settings: &[(&str, &str)]) -> Self {
        let once = [("upstream.probe_interval", "1h")];
        let process = Self::start(&[settings, &once].concat());
        until("the IAM to be probed", async || {
            iam_calls(process.management, "probe").await > 0
        })
        .await;
        process
    }
}
