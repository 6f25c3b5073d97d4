//! The commands, carried out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use iam_adapters::Clock;
use iam_adapters::clock::SystemClock;

use super::error::{Wrong, report};
use super::{Command, Exit, Stop, check, keys, welcome};
use crate::config::{Environment, Registry, Settings};
use crate::startup::{Addresses, Application, Parts};
use crate::telemetry;

/// What a program adds to the commands: its IAMs, and what it serves with them.
#[derive(Debug, Clone)]
pub struct Program {
    /// The IAMs that it can be configured for.
    pub registry: Registry,
    /// Builds the service.
    pub build: fn(&Settings, Parts) -> anyhow::Result<Application>,
    /// What the first screen in development mode says at its end.
    pub hints: fn(&Settings, Addresses) -> String,
}

/// The production program.
impl Default for Program {
    fn default() -> Self {
        Self {
            registry: Registry::default(),
            build: Application::build,
            hints: |_, _| String::new(),
        }
    }
}

/// The `main` of a program: parses the arguments and runs the command.
pub fn execute<C>(
    parse: impl FnOnce(Vec<OsString>, &BTreeMap<String, String>) -> Result<C, Stop>,
    run: impl FnOnce(
        C,
        &BTreeMap<String, String>,
        &mut dyn Write,
        &mut dyn Write,
    ) -> anyhow::Result<Exit>,
) -> ExitCode {
    // A variable that is not Unicode is no setting of ours.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let command = match parse(std::env::args_os().collect(), &environment) {
        Ok(command) => command,
        Err(stop) => {
            let written = if stop.exit == Exit::Ok {
                write!(io::stdout(), "{}", stop.text)
            } else {
                write!(io::stderr(), "{}", stop.text)
            };
            return written.map_or(Exit::Internal, |()| stop.exit).into();
        }
    };
    let exit = run(command, &environment, &mut io::stdout(), &mut io::stderr());
    exit.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "auth-gateway: {error:#}");
        Exit::Internal
    })
    .into()
}

/// Carries out a command. What it has to say goes to `out`, what is wrong to `err`.
///
/// # Errors
///
/// Where the gateway itself fails; everything foreseen is an [`Exit`].
pub fn run(
    command: Command,
    program: &Program,
    environment: &BTreeMap<String, String>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let registry = &program.registry;
    let outcome = match command {
        Command::Serve { config } => serve(config.as_deref(), program, environment, err),
        Command::Check { config, online } => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
            let prepared = Parts::load(config.as_deref(), environment, registry, clock);
            return check::check(prepared, online, environment, out);
        }
        Command::GenerateKey(key) => keys::generate(&key, out),
        Command::ListKeys(list) => keys::list(&list, environment, registry, out),
        Command::RotateKeys(rotate) => keys::rotate(&rotate, environment, registry, out),
        Command::RemoveKey(key) => keys::remove(&key, out),
    };
    report(outcome, err)
}

fn serve(
    file: Option<&Path>,
    program: &Program,
    environment: &BTreeMap<String, String>,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (settings, parts) =
        Parts::load(file, environment, &program.registry, clock).map_err(Wrong::from)?;
    let _flusher = telemetry::install(&settings.log, &parts.metrics)
        .map_err(|error| anyhow::anyhow!("logs: {error}"))?;
    actix_web::rt::System::new().block_on(async {
        // Before anybody is told that the gateway runs, and may end it.
        let stop = stop_signal()?;
        let application = (program.build)(&settings, parts)?;
        if settings.environment == Environment::Development {
            let addresses = application.addresses();
            let screen = welcome::screen(&settings, addresses);
            writeln!(err, "{screen}{}", (program.hints)(&settings, addresses))?;
        }
        application.run_until_stopped(stop).await
    })?;
    Ok(Exit::Ok)
}

/// Waits for SIGTERM, as orchestrators send it, or SIGINT, as a terminal does.
///
/// # Errors
///
/// Where the system cannot report signals.
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
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
