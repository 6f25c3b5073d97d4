//! `[log]`: the log.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

use super::errors::ConfigErrors;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct LogSettings {
    #[serde(deserialize_with = "iam_adapters::choice::deserialize")]
    pub format: LogFormat,
    /// Which lines are written: a level, or `target=level`, separated by commas.
    pub filter: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            // actix logs every worker that it starts and, as an error, every client that disconnects. ldap3 warns of
            // every response to a call that was given up.
            filter: "info,actix_server=warn,actix_http=off,ldap3=error".to_owned(),
        }
    }
}

impl LogSettings {
    pub(super) fn check(&self, problems: &mut ConfigErrors) {
        if let Err(error) = self.targets() {
            problems.add("log.filter", error.to_string());
        }
        if self.words().is_empty() {
            // The library would write no warnings.
            problems.add("log.filter", "must not be empty; `off` writes no lines");
        }
        // A word that is not a level would be a target, and all other targets would be off.
        for word in self.words() {
            if !word.contains('=') && word.parse::<LevelFilter>().is_err() {
                problems.add(
                    "log.filter",
                    format!("{word:?} is not a level (off, error, warn, info, debug, trace)"),
                );
            }
        }
    }

    /// Which lines are written.
    ///
    /// # Errors
    ///
    /// A word is not one of a filter.
    pub(crate) fn targets(&self) -> Result<Targets, ParseError> {
        self.words().join(",").parse()
    }

    /// The words of the filter without spaces and without empty ones: the library takes a space for a
    /// part of a target, and an empty word for the level `error`.
    fn words(&self) -> Vec<String> {
        let words = self.filter.split(',');
        let words = words.map(|word| word.split_whitespace().collect::<String>());
        words.filter(|word| !word.is_empty()).collect()
    }
}

/// The form of the lines.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, Serialize, VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "lowercase")]
pub enum LogFormat {
    /// For people on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// For people.
    Human,
    /// For programs.
    Json,
}
