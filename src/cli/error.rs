//! Errors that the user can correct, and their exit code.

use std::io::{self, Write};
use std::path::PathBuf;

use iam_adapters::files;

use super::Exit;
use crate::config::InvalidSettings;
use crate::startup::PassedSocketError;
use auth_gateway_core::keys::KeyError;

/// An error that the user can correct.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// In the settings.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// In the key files.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// In the sockets of the service manager.
    #[error(transparent)]
    Socket(#[from] PassedSocketError),
    /// A file cannot be written.
    #[error("cannot write {}: {}", .0.display(), files::reason(.1))]
    File(PathBuf, #[source] io::Error),
    /// In the arguments.
    #[error("{0}")]
    Request(String),
}

/// Prints an error that the user can correct, and returns the exit code of wrong arguments.
///
/// # Errors
///
/// Every other error of `outcome`.
pub fn report(outcome: anyhow::Result<Exit>, err: &mut dyn Write) -> anyhow::Result<Exit> {
    match outcome.map_err(anyhow::Error::downcast::<UserError>) {
        Ok(exit) => Ok(exit),
        Err(Ok(wrong)) => {
            writeln!(err, "auth-gateway: {wrong}")?;
            Ok(Exit::Configuration)
        }
        Err(Err(error)) => Err(error),
    }
}
