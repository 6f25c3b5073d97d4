//! `[log]`: the log.

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::problems::Problems;

/// The log.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct LogSettings {
    /// The format of the lines.
    pub format: LogFormat,
    /// Which lines are written: a level, or `target=level`, separated by commas.
    pub filter: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            // actix logs every worker that it starts and, as an error, every client that disconnects.
            filter: "info,actix_server=warn,actix_http=off".to_owned(),
        }
    }
}

impl LogSettings {
    pub(super) fn check(&self, problems: &mut Problems) {
        if let Err(error) = self.filter.parse::<Targets>() {
            problems.add("log.filter", error.to_string());
        }
        // A word that is not a level would be a target, and all other targets would be off.
        for word in self.filter.split(',').map(str::trim) {
            if !word.contains('=') && word.parse::<LevelFilter>().is_err() {
                problems.add(
                    "log.filter",
                    format!("{word:?} is not a level (off, error, warn, info, debug, trace)"),
                );
            }
        }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(try_from = "String", rename_all = "snake_case")]
pub enum LogFormat {
    /// For people on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl TryFrom<String> for LogFormat {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        match name.as_str() {
            "auto" => Ok(Self::Auto),
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err("expected `auto`, `human` or `json`"),
        }
    }
}
