//! Gathers what is wrong with the settings and with the files that they name.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;

use super::InvalidSettings;
use super::layers::Layers;

/// What is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    problems: Vec<Problem>,
    unread: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Problem {
    key: String,
    message: String,
}

impl Problems {
    /// Notes what is wrong with a setting, once. Of a setting that could not be read nothing more is
    /// noted: that would speak of the default that stands in for it.
    pub(crate) fn add(&mut self, key: &str, message: impl Into<String>) {
        let problem = Problem {
            key: key.to_owned(),
            message: message.into(),
        };
        if !self.unread.contains(key) && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Notes why a setting cannot be read.
    pub(super) fn add_unread(&mut self, key: &str, message: impl Into<String>) {
        self.add(key, message);
        self.unread.insert(key.to_owned());
    }

    /// Adds the problems that another check found: one for each line, as `key: message`.
    pub(crate) fn add_lines(&mut self, lines: &str) {
        for line in lines.lines() {
            let (key, message) = line.split_once(": ").unwrap_or(("iam", line));
            self.add(key, message);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn duration_within(
        &mut self,
        key: &str,
        value: Duration,
        range: RangeInclusive<Duration>,
    ) {
        if !range.contains(&value) {
            let (least, most) = (
                format_duration(*range.start()),
                format_duration(*range.end()),
            );
            let value = format_duration(value);
            self.add(key, format!("{value} is not within {least} and {most}"));
        }
    }

    pub(super) fn number_within(&mut self, key: &str, value: usize, range: RangeInclusive<usize>) {
        if !range.contains(&value) {
            let (least, most) = range.into_inner();
            self.add(key, format!("{value} is not within {least} and {most}"));
        }
    }

    /// Why there is no gateway, where it is not known where the settings came from.
    pub(crate) fn into_invalid_settings(self) -> InvalidSettings {
        InvalidSettings {
            problems: self.into_lines(None),
        }
    }

    /// One line for each problem, with where the setting came from where that is known.
    pub(super) fn into_lines(self, layers: Option<&Layers>) -> Vec<String> {
        let line = |Problem { key, message }| match layers.and_then(|layers| layers.origin(&key)) {
            Some(origin) => format!("{key}: {message} (set in {origin})"),
            None => format!("{key}: {message}"),
        };
        self.problems.into_iter().map(line).collect()
    }
}
