//! Gathers what is wrong, one problem for each setting.

use std::ops::RangeInclusive;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;

use super::layers::Layers;

/// What is wrong so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

#[derive(Debug)]
struct Problem {
    key: String,
    message: String,
}

impl Problems {
    /// Notes what is wrong with a setting. Only the first word on a setting counts: the later ones
    /// speak of the default that stands in for a value that could not be read.
    pub(super) fn add(&mut self, key: &str, message: impl Into<String>) {
        if self.0.iter().all(|problem| problem.key != key) {
            self.0.push(Problem {
                key: key.to_owned(),
                message: message.into(),
            });
        }
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

    /// One line for each problem, with where the setting came from.
    pub(super) fn into_lines(self, layers: &Layers) -> Vec<String> {
        self.0
            .into_iter()
            .map(|Problem { key, message }| match layers.origin(&key) {
                Some(origin) => format!("{key}: {message} (set in {origin})"),
                None => format!("{key}: {message}"),
            })
            .collect()
    }
}
