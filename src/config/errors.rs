//! Collects the problems of the settings and of the files that they name.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;

use super::InvalidSettings;

#[derive(Debug, Default)]
pub(crate) struct ConfigErrors {
    problems: Vec<SettingError>,
    unread: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct SettingError {
    key: String,
    message: String,
}

impl ConfigErrors {
    /// Adds a problem, once. A setting that could not be read gets no further problems: they would be
    /// those of the default or placeholder that replaces it.
    pub(crate) fn add(&mut self, key: &str, message: impl Into<String>) {
        let problem = SettingError {
            key: key.to_owned(),
            message: message.into(),
        };
        if !self.unread.contains(key) && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Adds the reason why a setting cannot be read.
    pub(super) fn add_unread(&mut self, key: &str, message: impl Into<String>) {
        self.add(key, message);
        self.mark_unread(key);
    }

    /// Ignores problems of this setting from now on.
    pub(super) fn mark_unread(&mut self, key: &str) {
        self.unread.insert(key.to_owned());
    }

    /// Adds the problems that another check found: one for each line, as `key: message`.
    pub(crate) fn add_lines(&mut self, lines: &str) {
        for line in lines.lines() {
            let (key, message) = line.split_once(": ").unwrap_or(("iam", line));
            self.add(key, message);
        }
    }

    /// Removes the problems of all settings but this one, or of those outside this section.
    pub(crate) fn retain_within(&mut self, key: &str) {
        self.problems.retain(|problem| {
            let rest = problem.key.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
    }

    /// Adds a value that is set and not within its range.
    pub(super) fn within<T: Ranged>(
        &mut self,
        key: &str,
        value: impl Into<Option<T>>,
        range: &RangeInclusive<T>,
    ) {
        if let Some(value) = value.into()
            && !range.contains(&value)
        {
            let [value, least, most] = [value, *range.start(), *range.end()].map(T::shown);
            self.add(key, format!("{value} is not within {least} and {most}"));
        }
    }

    /// The value, unless there are problems. `place` names the file or the variable that sets a setting.
    pub(crate) fn into_result<T>(
        self,
        value: Option<T>,
        place: impl Fn(&str) -> Option<String>,
    ) -> Result<T, InvalidSettings> {
        let line = |SettingError { key, message }| match place(&key) {
            Some(place) => format!("{key}: {message} (set in {place})"),
            None => format!("{key}: {message}"),
        };
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => Err(InvalidSettings {
                problems: self.problems.into_iter().map(line).collect(),
            }),
        }
    }
}

pub(super) trait Ranged: PartialOrd + Copy {
    /// As in the settings.
    fn shown(self) -> String;
}

impl Ranged for Duration {
    fn shown(self) -> String {
        format_duration(self).to_string()
    }
}

impl Ranged for u32 {
    fn shown(self) -> String {
        self.to_string()
    }
}

impl Ranged for usize {
    fn shown(self) -> String {
        self.to_string()
    }
}
