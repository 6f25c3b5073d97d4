//! `config show`: the settings in effect.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use super::error::UserError;
use super::{ConfigFile, Exit};
use crate::config::{Registry, Source};

/// The commands of `config`.
#[derive(Debug, clap::Subcommand)]
pub enum ConfigCommands {
    /// Write the settings in effect with their origins, without secrets
    ///
    /// The output is a settings file, with the origin of each value as a comment: the default, the file
    /// or a variable of the environment. It can be loaded again if the secrets are set elsewhere.
    Show {
        /// The option `--config`
        #[command(flatten)]
        config: ConfigFile,
        /// Write JSON: an object for each key, with `value` or `hidden`, and `origin`
        #[arg(long)]
        json: bool,
    },
}

/// `config show`, with the configuration file of the arguments or else of the environment.
#[derive(Debug, PartialEq, Eq)]
pub struct ShowConfig {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Whether the output is JSON.
    pub json: bool,
}

pub(super) fn show(
    command: &ShowConfig,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let source = Source::new(command.config.as_deref(), environment, registry);
    let settings = source.effective().map_err(UserError::from)?;
    if command.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&settings)?)?;
    } else {
        write!(out, "{settings}")?;
    }
    Ok(Exit::Ok)
}
