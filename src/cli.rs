//! The command line: arguments, commands and their help texts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use tokio::runtime::Runtime;

use crate::config::{Registry, Settings, SettingsSource};

mod audit;
mod check;
mod config;
mod error;
mod healthcheck;
mod init;
mod keys;
mod management_call;
mod revoke;
mod run;
#[cfg(test)]
mod tests;

pub use error::{UserError, report};
pub use run::{Program, execute, run, stop_signal};

use audit::AuditCommand;
use config::ConfigCommand;
use init::Init;
use keys::KeyCommand;
use revoke::Revoke;

/// The configuration file if there is no `--config`.
const CONFIG_VARIABLE: &str = "AUTH_GATEWAY_CONFIG";

/// How the program ends, with the numbers of `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// The arguments or the settings are wrong.
    Configuration = 64,
    /// The IAM, or the running gateway that a command calls, cannot be reached or refuses the call.
    Unavailable = 69,
    /// The gateway itself failed.
    Internal = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Reads the arguments, the program's own name first.
///
/// # Errors
///
/// Help was requested, or the arguments are wrong.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let Arguments { command, config } = Arguments::try_parse_from(arguments)?;
    command.unwrap_or(Command::Serve(config)).consistent()
}

impl Command {
    /// The command, if its arguments do not contradict each other.
    ///
    /// # Errors
    ///
    /// They do.
    pub fn consistent(self) -> Result<Self, clap::Error> {
        match &self {
            Self::Keys(keys) if keys.selects_algorithm_of_sealing() => {
                let problem = "--alg is for signing keys; sealing keys have one algorithm";
                Err(Arguments::command().error(ErrorKind::ArgumentConflict, problem))
            }
            _ => Ok(self),
        }
    }
}

impl ConfigFile {
    /// The file of the arguments, or else of the environment.
    #[must_use]
    pub fn path<'a>(&'a self, environment: &'a BTreeMap<String, String>) -> Option<&'a Path> {
        let named = environment
            .get(CONFIG_VARIABLE)
            .filter(|name| !name.is_empty());
        self.config.as_deref().or(named.map(Path::new))
    }
}

/// The description of the program.
pub const ABOUT: &str = "\
A thin, fast gateway in front of an external identity system (IAM): applications log in with e-mail
and password, exchange the session for signed access tokens, and log out.";

const AFTER: &str = "\
First steps:
  auth-gateway init --iam keycloak --output FILE
                                    write settings to start from, and a key of identifiers
  auth-gateway --config FILE        run; by default on http://127.0.0.1:8080, management on
                                    127.0.0.1:9090
  auth-gateway check --config FILE  report every problem of a configuration; --online calls the IAM
  auth-gateway config show --config FILE
                                    write every setting in effect and where it is set
  auth-gateway keys generate --dir DIR
                                    make a key that replicas share
  auth-gateway keys rotate --config FILE --every 30d
                                    make the next keys and remove old ones, for cron
  auth-gateway revoke subject SUBJECT --config FILE
                                    end all sessions of a user at the running gateway
  auth-gateway healthcheck --config FILE
                                    report whether the running gateway should get traffic

Settings:
  Defaults, then the file, then the environment. In the environment `http.listen` is
  AUTH_GATEWAY__HTTP__LISTEN: section and key in capitals, two underscores before each, commas
  between the items of a list.

Exit codes:
  0   done
  64  the arguments or the configuration are wrong
  69  the IAM (check --online) or the running gateway (revoke, healthcheck) cannot be reached,
      refuses the call, or should get no traffic
  70  the gateway itself failed

Documentation, in /usr/share/doc/auth-gateway of the Debian package and of the image, and in the
sources:
  README.md              all pages
  docs/production.md     from nothing to two replicas
  docs/commands.md       every command; the package also has manual pages: auth-gateway(1)
  docs/configuration.md  every setting; deploy/auth-gateway.example.toml has them as a file
  openapi.yaml           the interface, which a running gateway serves at /openapi.yaml";

#[derive(Debug, Parser)]
#[command(
    name = "auth-gateway",
    version = crate::VERSION_AND_COMMIT,
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

/// The option `--config`.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct ConfigFile {
    /// The configuration file; `None`: only the defaults and the environment.
    #[arg(
        long,
        value_name = "FILE",
        help = "The configuration file, TOML [environment: AUTH_GATEWAY_CONFIG]"
    )]
    pub config: Option<PathBuf>,
}

/// A command of the gateway. A program with further commands can flatten them into its own.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Run the gateway (the default)
    Serve(ConfigFile),
    /// Check the configuration without running the gateway, and report every problem
    Check {
        /// The option `--config`
        #[command(flatten)]
        config: ConfigFile,
        /// Also call the IAM, to see whether it accepts this gateway
        #[arg(long)]
        online: bool,
        /// Report where these scopes of the test account come from, or why they are not granted
        #[arg(long, value_name = "SCOPE", num_args = 1.., requires = "online")]
        explain: Vec<String>,
    },
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write settings to start from, with a comment for each
    Init(Init),
    /// Make, list and rotate the keys that sign tokens and seal sessions
    #[command(subcommand)]
    Keys(KeyCommand),
    /// Compute the identifiers in the lines of the logs
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Revoke sessions at a running gateway, by its management listener
    ///
    /// Needs `management.token` or `management.token_file` of the running gateway, and calls
    /// `management.listen`. The gateway refuses the sessions from then on, and so do all replicas with
    /// the same Redis. Access tokens that were issued stay valid until they expire, and the sessions
    /// at the IAM until they expire there.
    Revoke(Revoke),
    /// Ask the gateway on this machine whether it should get traffic, for containers
    ///
    /// Calls `/health/ready` of `management.listen`, and writes the status with the codes of its
    /// reasons. A degraded gateway should get traffic.
    Healthcheck(ConfigFile),
    /// Write the completions for a shell to standard output
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What a command uses: the IAMs of the program, the environment, and where its text goes.
struct Invocation<'a> {
    registry: &'a Registry,
    environment: &'a BTreeMap<String, String>,
    /// For results.
    out: &'a mut dyn Write,
    /// For problems.
    err: &'a mut dyn Write,
}

impl Invocation<'_> {
    fn settings(&self, config: &ConfigFile) -> Result<Settings, UserError> {
        let file = config.path(self.environment);
        Ok(crate::config::load(file, self.environment, self.registry)?)
    }

    /// The settings for a command that uses only the setting or section `used`. Problems of the others are
    /// ignored, because a running gateway goes on with their values from before. Here such a setting may have
    /// its default or a placeholder.
    fn settings_for(&self, used: &str, config: &ConfigFile) -> Result<Settings, UserError> {
        let loaded = self.source(config).load_with(|_, _, problems| {
            problems.retain_within(used);
            Some(())
        })?;
        Ok(loaded.0)
    }

    fn source(&self, config: &ConfigFile) -> SettingsSource {
        let file = config.path(self.environment);
        SettingsSource::new(file, self.environment, self.registry)
    }
}

/// The runtime of a command that makes calls.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// The definition of the arguments, for the reference of the commands and the manual pages.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// The completions of the production program.
fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "auth-gateway", &mut text);
    text
}
