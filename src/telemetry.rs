//! The log, the metrics and the traces.

pub(crate) mod json_lines;
pub mod metrics;
pub(crate) mod traces;

use std::io::IsTerminal as _;
use std::panic::{self, PanicHookInfo};

use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, fmt};

use crate::config::{LogFormat, LogSettings};

use json_lines::{Flusher, LineWriter, LogOutput};

/// A subscriber that writes one line for each event to `writer`, in the format and with the filter
/// of the settings.
pub(crate) fn subscriber<W>(settings: &LogSettings, terminal: bool, writer: W) -> impl Subscriber
where
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    // The settings were checked when they were read.
    let filter = settings.targets().unwrap_or_default();
    let human = match settings.format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let layer = fmt::layer().with_writer(writer);
    let layer = if human {
        layer.with_ansi(terminal).boxed()
    } else {
        layer
            .event_format(json_lines::Json)
            .fmt_fields(json_lines::Json)
            .boxed()
    };
    // A filter of the whole registry, because a filter of one layer costs each event more.
    tracing_subscriber::registry().with(layer).with(filter)
}

/// Sends the logs of the whole process to standard output, until the returned [`Flusher`] ends.
///
/// # Errors
///
/// The process has a subscriber already, or no thread can be started.
pub fn install(
    settings: &LogSettings,
    metrics: &metrics::Metrics,
) -> Result<Flusher, Box<dyn std::error::Error + Send + Sync>> {
    let stdout = std::io::stdout();
    let terminal = stdout.is_terminal();
    let output = LogOutput::new(move || stdout.lock());
    let (writer, flusher) =
        LineWriter::start("log", output, metrics.families.log_lines_dropped.clone())?;
    subscriber(settings, terminal, writer).try_init()?;
    panic::set_hook(Box::new(log_panic));
    Ok(flusher)
}

/// Logs the place of a panic. Its message may contain what a request sent.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    tracing::error!(place, "panic");
}

#[cfg(test)]
mod tests {
    use test_support::log;

    use super::*;

    #[test]
    fn spaces_and_empty_words_of_the_filter_turn_no_line_off() {
        for filter in [
            "info",
            "actix_http=off, info",
            " info , auth_gateway = debug",
            "info,",
            "info,,actix_http=off",
        ] {
            let lines = log::Written::default();
            let writer = lines.clone();
            let settings = LogSettings {
                filter: filter.to_owned(),
                ..LogSettings::default()
            };
            let captured = log::capture(subscriber(&settings, false, move || writer.clone()));
            tracing::info!(filter, "written");
            tracing::info!(target: "actix_http", "a line of a library");
            drop(captured);
            let logged = lines.text();
            assert!(logged.contains(r#""message":"written""#), "{filter:?}");
            let has_library = !filter.contains("actix_http=off");
            assert_eq!(
                logged.lines().count(),
                1 + usize::from(has_library),
                "{logged}"
            );
        }
    }

    #[test]
    fn panic_is_logged_with_its_place_and_without_its_message() {
        let lines = log::Written::default();
        let writer = lines.clone();
        let settings = LogSettings::default();
        let subscriber = subscriber(&settings, false, move || writer.clone());
        let captured = log::capture(subscriber);
        let before = panic::take_hook();
        panic::set_hook(Box::new(log_panic));
        let caught = panic::catch_unwind(|| panic!("the password is {}", "canary"));
        panic::set_hook(before);
        assert!(caught.is_err());
        drop(captured);
        let logged = lines.text();
        assert_eq!(logged.lines().count(), 1, "{logged}");
        assert!(
            logged.contains(r#""message":"panic","place":"src/telemetry.rs:"#),
            "{logged}"
        );
        assert!(!logged.contains("canary"), "{logged}");
    }
}
