//! Runs the commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::sync::Arc;

use iam_adapters::Clock;
use iam_adapters::clock::SystemClock;
use tokio::signal::unix::{SignalKind, signal};

use super::config::ConfigCommand;
use super::error::{UserError, report};
use super::{
    Command, ConfigFile, Exit, Invocation, audit, check, config, healthcheck, init, keys, revoke,
};
use crate::config::{InvalidSettings, LogFormat, Registry, Settings, is_own_variable};
use crate::startup::{self, Application, ServiceDependencies};
use crate::telemetry;

/// The names of the sockets that systemd passes (`sd_listen_fds(3)`).
const SOCKET_NAMES_VARIABLE: &str = "LISTEN_FDNAMES";

/// The parts in which programs differ: their IAMs, the settings that they refuse, and what they serve.
#[derive(Debug, Clone)]
pub struct Program {
    /// The adapters that can be configured.
    pub registry: Registry,
    /// For `check`: refuses settings which are valid, but with which `build` fails.
    pub check: fn(&Settings) -> Result<(), InvalidSettings>,
    /// Builds the service.
    pub build: fn(&Settings, ServiceDependencies) -> anyhow::Result<Application>,
}

/// The production program.
impl Default for Program {
    fn default() -> Self {
        Self {
            registry: Registry::default(),
            check: |_| Ok(()),
            build: Application::build,
        }
    }
}

/// The `main` of a program: parses the arguments and runs the command.
pub fn execute<C>(
    parse: impl FnOnce(Vec<OsString>) -> Result<C, clap::Error>,
    run: impl FnOnce(
        C,
        &BTreeMap<String, String>,
        &mut dyn Write,
        &mut dyn Write,
    ) -> anyhow::Result<Exit>,
) -> ExitCode {
    // Others may be secrets of other programs.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    let environment: Result<BTreeMap<String, String>, UserError> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| is_own_variable(name) || name == SOCKET_NAMES_VARIABLE)
        .map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(UserError::Request(format!("{name}: is not UTF-8"))),
        })
        .collect();
    let command = match parse(std::env::args_os().collect()) {
        Ok(command) => command,
        Err(stop) => {
            let (written, exit) = if stop.use_stderr() {
                (write!(io::stderr(), "{stop}"), Exit::Configuration)
            } else {
                (write!(io::stdout(), "{stop}"), Exit::Ok)
            };
            return written.map_or(Exit::Internal, |()| exit).into();
        }
    };
    let exit = match environment {
        Ok(environment) => run(command, &environment, &mut io::stdout(), &mut io::stderr()),
        Err(wrong) => report(Err(wrong.into()), &mut io::stderr()),
    };
    exit.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "auth-gateway: {error:#}");
        Exit::Internal
    })
    .into()
}

/// Runs a command. Results go to `out`, problems to `err`.
///
/// # Errors
///
/// The gateway itself failed. Every other failure is an [`Exit`].
pub fn run(
    command: &Command,
    program: &Program,
    environment: &BTreeMap<String, String>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let registry = &program.registry;
    let mut invocation = Invocation {
        registry,
        environment,
        out,
        err,
    };
    let outcome = match command {
        Command::Serve(config) => serve(config, program, environment),
        Command::Check {
            config,
            online,
            explain,
        } => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
            let prepared =
                ServiceDependencies::load(config.path(environment), environment, registry, clock);
            let prepared = prepared.and_then(|(settings, parts)| {
                (program.check)(&settings)?;
                Ok((settings, parts))
            });
            return check::check(prepared, *online, explain, environment, out);
        }
        Command::Config(ConfigCommand::Show { config, json }) => {
            config::show(config, *json, &mut invocation)
        }
        Command::Init(arguments) => init::init(arguments, registry, out),
        Command::Keys(command) => keys::run(command, &mut invocation),
        Command::Audit(command) => audit::run(command, &mut invocation),
        Command::Revoke(command) => revoke::revoke(command, &mut invocation),
        Command::Healthcheck(config) => healthcheck::healthcheck(config, &mut invocation),
        Command::Completions { shell } => {
            out.write_all(&super::completions(*shell))?;
            Ok(Exit::Ok)
        }
    };
    report(outcome, err)
}

fn serve(
    config: &ConfigFile,
    program: &Program,
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let names = environment.get(SOCKET_NAMES_VARIABLE).map(String::as_str);
    let sockets = startup::passed_sockets(names).map_err(UserError::from)?;
    // Never dropped: that would wait, without a bound, for look-ups of names and readings of files that are in progress.
    // What has to be finished is finished before the application ends.
    let system = ManuallyDrop::new(actix_web::rt::System::new());
    system.block_on(async { handle_hangups() })?;
    // No problem of the settings: the service manager starts the gateway again, until the clock is set.
    startup::check_clock(clock.now())?;
    let file = config.path(environment);
    let (settings, mut parts) =
        ServiceDependencies::load(file, environment, &program.registry, clock)
            .map_err(UserError::from)?;
    startup::check_sockets(&settings, &sockets).map_err(UserError::from)?;
    parts.sockets = Arc::new(sockets);
    let _flusher = telemetry::install(&settings.log, &parts.metrics)
        .map_err(|error| anyhow::anyhow!("logs: {error}"))?;
    let is_json = settings.log.format == LogFormat::Json;
    let ended = system.block_on(async {
        // First, because a signal may come once the ports are bound.
        let stop = stop_signal()?;
        let application = (program.build)(&settings, parts)?;
        application.run_until_stopped(stop).await
    });
    match ended {
        // A reader of the log reads standard error too.
        Err(error) if is_json && !error.is::<UserError>() => {
            tracing::error!(error = format!("{error:#}"), "the gateway ends");
            Ok(Exit::Internal)
        }
        ended => ended.map(|()| Exit::Ok),
    }
}

/// From now on, SIGHUP does not end the process, which is its default action. The service reads its files again on
/// each SIGHUP after it has read them for the first time.
fn handle_hangups() -> io::Result<()> {
    signal(SignalKind::hangup()).map(drop)
}

/// Waits for SIGTERM, which orchestrators send, or SIGINT, which a terminal sends.
///
/// # Errors
///
/// The system cannot report signals.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
