//! The commands, carried out.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use iam_adapters::Clock;
use iam_adapters::clock::SystemClock;
use jiff::Timestamp;

use super::{
    Command, Exit, FirstUse, GenerateKey, KeyUse, ListKeys, SigningAlgorithm, check, welcome,
};
use crate::config::{self, Environment, InvalidSettings, KeySettings};
use crate::gateway::keys::{self, Algorithm, KeyError, KeyFile, KeyPurpose};
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
            let settings = config::load(config.as_deref(), environment);
            return check::check(settings, online, environment, out);
        }
        Command::GenerateKey(key) => generate(&key, out),
        Command::ListKeys(list) => self::list(&list, out),
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
enum Wrong {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    Key(#[from] KeyError),
}

fn serve(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let settings = config::load(file, environment).map_err(Wrong::from)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let parts = Parts::prepare(&settings, clock).map_err(Wrong::from)?;
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
fn told_to_stop() -> std::io::Result<impl Future<Output = ()>> {
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

fn generate(key: &GenerateKey, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let purpose = match key.purpose {
        KeyUse::Sealing => KeyPurpose::Sealing,
        KeyUse::Signing => KeyPurpose::Signing(match key.algorithm {
            None | Some(SigningAlgorithm::Es256) => Algorithm::Es256,
            Some(SigningAlgorithm::EdDsa) => Algorithm::EdDsa,
            Some(SigningAlgorithm::Rs256) => Algorithm::Rs256,
        }),
    };
    let first_use = match key.first_use {
        Some(FirstUse::Now) => Timestamp::now(),
        Some(FirstUse::At(time)) => time,
        None => soonest(&key.directory, key.purpose)?,
    };
    let made = keys::generate(purpose, first_use).map_err(Wrong::from)?;
    let path = keys::write_new(&key.directory, &made).map_err(Wrong::from)?;
    writeln!(out, "{}  used from {first_use:.0} on", path.display())?;
    Ok(Exit::Ok)
}

/// The first key of its purpose begins at once: nobody can work without. A further one begins when
/// everybody who keeps the published keys has seen it, whatever their clocks say.
fn soonest(directory: &Path, purpose: KeyUse) -> anyhow::Result<Timestamp> {
    let now = Timestamp::now();
    if !directory.exists() {
        return Ok(now);
    }
    let files = keys::read_dir(directory).map_err(Wrong::from)?;
    let alike = |key: &KeyFile| match purpose {
        KeyUse::Signing => matches!(key.purpose(), Some(KeyPurpose::Signing(_))),
        KeyUse::Sealing => key.purpose() == Some(KeyPurpose::Sealing),
    };
    if files.iter().any(|(_, key)| alike(key)) {
        Ok(now + (KeySettings::default().jwks_max_age + keys::CLOCK_SKEW))
    } else {
        Ok(now)
    }
}

fn list(list: &ListKeys, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut files = keys::read_dir(&list.directory).map_err(Wrong::from)?;
    files.sort_by_key(|(_, key)| key.first_use());
    let now = Timestamp::now();
    for purpose in ["signing", "sealing", "unknown"] {
        let of = |key: &keys::KeyFile| match key.purpose() {
            Some(KeyPurpose::Signing(algorithm)) => ("signing", algorithm.name()),
            Some(KeyPurpose::Sealing) => ("sealing", "A256GCM"),
            None => ("unknown", "?"),
        };
        let mine: Vec<_> = files
            .iter()
            .filter(|(_, key)| of(key).0 == purpose)
            .collect();
        // As a gateway chooses: before the first of all has come, that one.
        let current = mine.iter().rposition(|(_, key)| key.first_use() <= now);
        let current = current.unwrap_or_default();
        for (at, (_, key)) in mine.iter().enumerate() {
            let state = match at.cmp(&current) {
                _ if key.purpose().is_none() => "unusable",
                Ordering::Less => "replaced",
                Ordering::Equal => "in use",
                Ordering::Greater => "waiting",
            };
            let (kid, first_use) = (key.kid(), key.first_use());
            writeln!(
                out,
                "{purpose:<8} {:<8} {state:<9} {first_use:.0}  {kid}",
                of(key).1
            )?;
        }
    }
    if files.is_empty() {
        writeln!(out, "no keys in {}", list.directory.display())?;
    }
    Ok(Exit::Ok)
}
