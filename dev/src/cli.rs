//! The command line of `auth-gateway-dev`: the commands of the gateway, and `mock-iam`.

mod serve_mock;
mod welcome;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};

use auth_gateway::cli::{self, ABOUT, ConfigFile, Exit, Program, UserError};
use auth_gateway::config::{Environment, LogFormat, Settings};
use auth_gateway::startup::{Application, PassedSockets, ServiceDependencies};
use clap::{Parser, Subcommand};

use crate::safety;

pub use serve_mock::MockIamOptions;

const AFTER: &str = "\
First steps:
  auth-gateway-dev                  run at once, in development mode: mock IAM, demo users,
                                    http://127.0.0.1:8080, management on 127.0.0.1:9090
  auth-gateway-dev mock-iam --config FILE
                                    run the mock as the Keycloak of a configuration
  auth-gateway-dev check --config FILE
                                    report every problem of a configuration; --online calls the IAM

For development and tests only. The production program, auth-gateway, has neither the mock IAM nor
its control API.";

#[derive(Debug, Parser)]
#[command(
    name = "auth-gateway-dev",
    version = auth_gateway::VERSION_AND_COMMIT,
    about = ABOUT,
    after_help = AFTER,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigFile,
}

/// A command of the program.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// A command of the gateway.
    #[command(flatten)]
    Gateway(cli::Command),
    /// Run the mock IAM as the Keycloak of the configuration, for tests of the gateway
    MockIam {
        /// The option `--config`
        #[command(flatten)]
        config: ConfigFile,
        /// The other arguments
        #[command(flatten)]
        options: MockIamOptions,
    },
}

/// Parses the arguments; the first is the name of the program.
///
/// # Errors
///
/// Help was requested, or the arguments are wrong.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let Arguments { command, config } = Arguments::try_parse_from(arguments)?;
    match command.unwrap_or(Command::Gateway(cli::Command::Serve(config))) {
        Command::Gateway(command) => command.consistent().map(Command::Gateway),
        command @ Command::MockIam { .. } => Ok(command),
    }
}

/// Runs a command. Results go to `out`, problems to `err`.
///
/// # Errors
///
/// If the program itself fails; expected problems are an [`Exit`].
pub fn run(
    command: Command,
    environment: &BTreeMap<String, String>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let program = Program {
        registry: crate::registry(),
        check: |settings| safety::check(settings, &PassedSockets::default()),
        build,
    };
    match command {
        Command::Gateway(command) => cli::run(&command, &program, environment, out, err),
        Command::MockIam { config, options } => {
            let outcome = serve_mock::serve(config.path(environment), &options, environment, err);
            cli::report(outcome, err)
        }
    }
}

/// Builds the service, and welcomes its user.
fn build(settings: &Settings, parts: ServiceDependencies) -> anyhow::Result<Application> {
    safety::check(settings, &parts.sockets).map_err(UserError::from)?;
    let application = crate::build(settings, parts)?;
    // A program that reads the log reads standard error too.
    if settings.environment == Environment::Development && settings.log.format != LogFormat::Json {
        let screen = welcome::screen(settings, application.addresses());
        writeln!(io::stderr(), "{screen}")?;
    }
    Ok(application)
}
