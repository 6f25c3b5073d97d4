//! Errors that the user can correct, and their exit code.

use std::io::Write;

use super::Exit;
use crate::config::InvalidSettings;
use crate::gateway::keys::KeyError;

/// What the user can put right.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// The files of keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What the arguments ask for.
    #[error("{0}")]
    Request(String),
}

/// Prints what the user can put right; then the program ends as for wrong arguments.
///
/// # Errors
///
/// Every other error of `outcome`.
pub fn report(outcome: anyhow::Result<Exit>, err: &mut dyn Write) -> anyhow::Result<Exit> {
    match outcome.map_err(anyhow::Error::downcast::<Wrong>) {
        Ok(exit) => Ok(exit),
        Err(Ok(wrong)) => {
            writeln!(err, "auth-gateway: {wrong}")?;
            Ok(Exit::Configuration)
        }
        Err(Err(error)) => Err(error),
    }
}
