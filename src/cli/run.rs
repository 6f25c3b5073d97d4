//! The commands, carried out.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use iam_adapters::Clock;
use iam_adapters::clock::SystemClock;

use super::{Command, Exit, check, keys, mock_iam, welcome};
use crate::config::{Environment, InvalidSettings};
use crate::gateway::keys::KeyError;
use crate::startup::{Application, Parts};
use crate::telemetry;

/// Carries out a command. What it has to say goes to `out`, what is wrong to `err`.
///
/// # Errors
///
/// Where the gateway itself fails; everything foreseen is an [`Exit`].
pub fn run(
    command: Command,
    environment: &BTreeMap<String, String>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let outcome = match command {
        Command::Serve { config } => serve(config.as_deref(), environment, err),
        Command::Check { config, online } => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
            let prepared = Parts::load(config.as_deref(), environment, clock);
            return check::check(prepared, online, environment, out);
        }
        Command::MockIam(stand_in) => mock_iam::serve(&stand_in, environment, err),
        Command::GenerateKey(key) => keys::generate(&key, out),
        Command::ListKeys(list) => keys::list(&list, environment, out),
        Command::RotateKeys(rotate) => keys::rotate(&rotate, environment, out),
        Command::RemoveKey(key) => keys::remove(&key, out),
    };
    match outcome.map_err(anyhow::Error::downcast::<Wrong>) {
        Ok(exit) => Ok(exit),
        Err(Ok(wrong)) => {
            writeln!(err, "auth-gateway: {wrong}")?;
            Ok(Exit::Configuration)
        }
        Err(Err(error)) => Err(error),
    }
}

/// What the user can put right.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0}")]
    Request(String),
}

fn serve(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (settings, parts) = Parts::load(file, environment, clock).map_err(Wrong::from)?;
    let _flusher = telemetry::install(&settings.log, &parts.metrics)
        .map_err(|error| anyhow::anyhow!("logs: {error}"))?;
    actix_web::rt::System::new().block_on(async {
        // Before anybody is told that the gateway runs, and may end it.
        let stop = told_to_stop()?;
        let application = Application::build(&settings, parts)?;
        if settings.environment == Environment::Development {
            writeln!(
                err,
                "{}",
                welcome::screen(&settings, application.addresses())
            )?;
        }
        application.run_until_stopped(stop).await
    })?;
    Ok(Exit::Ok)
}

/// SIGTERM, as orchestrators send it, or SIGINT, as a terminal does.
pub(super) fn told_to_stop() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
