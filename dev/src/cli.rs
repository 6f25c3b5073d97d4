//! The command line of `auth-gateway-dev`: the commands of the gateway, and `mock-iam`.

mod serve_mock;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;

use auth_gateway::cli::{self, ABOUT, ConfigFile, Exit, Program, UserError, generated_key};
use auth_gateway::config::{self, Settings};
use auth_gateway::startup::{Addresses, PassedSockets};
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
        build: |settings, parts| {
            safety::check(settings, &parts.sockets).map_err(UserError::from)?;
            crate::build(settings, parts)
        },
        hints,
    };
    match command {
        Command::Gateway(command) => {
            if let cli::Command::Check { config, .. } = &command
                && let Ok(settings) =
                    config::load(config.path(environment), environment, &program.registry)
                && let Err(invalid) = safety::check(&settings, &PassedSockets::default())
            {
                writeln!(out, "{invalid}")?;
                return Ok(Exit::Configuration);
            }
            cli::run(&command, &program, environment, out, err)
        }
        Command::MockIam { config, options } => {
            let outcome = serve_mock::serve(config.path(environment), &options, environment, err);
            cli::report(outcome, err)
        }
    }
}

/// The welcome screen's lines about the mock: the console, the demo users and commands to try.
fn hints(settings: &Settings, addresses: Addresses) -> String {
    let mock = crate::only_mock(settings);
    let mut hints = if mock.is_some_and(|mock| mock.fixed_signing_key) {
        "            the signing key is the published one\n".to_owned()
    } else {
        generated_key("signing", settings.keys.signing_dir.as_deref())
    };
    hints.push_str(&generated_key(
        "sealing",
        settings.keys.sealing_dir.as_deref(),
    ));
    let Some(mock) = mock else {
        return hints;
    };
    let management = format!("http://{}", addresses.management);
    let _ = writeln!(
        hints,
        "console     {management}/mock/  {management}/mock/v1/openapi.yaml"
    );
    if mock.users_file.is_none() {
        let scheme = settings.http.scheme();
        let _ = write!(
            hints,
            "{}",
            demo(&format!("{scheme}://{}", addresses.public))
        );
    }
    hints
}

/// Commands that need no JSON tool: the response of login without its last brace is the beginning of
/// the token request.
fn demo(base: &str) -> String {
    format!(
        r#"
Demo users  alice@example.test / alice-pass   urn:shop:orders:order:read urn:shop:orders:order:write
            bob@example.test   / bob-pass     urn:shop:catalog:item:read

Try it:

  session=$(curl -s {base}/api/v1/auth/login -H 'Content-Type: application/json' \
    -d '{{"email":"alice@example.test","password":"alice-pass"}}')
  curl -s {base}/api/v1/auth/token -H 'Content-Type: application/json' \
    -d "${{session%\}}}},\"grant_type\":\"session\",\"scope\":\"urn:shop:orders:order:read\"}}"
"#
    )
}
