//! What happened in a history, and a hash of it.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

/// The events in their order.
#[derive(Debug)]
pub(crate) struct Trace {
    hasher: DefaultHasher,
    line: String,
    /// `None`: only the hash is of interest.
    lines: Option<Vec<String>>,
}

impl Trace {
    /// With the text of the events if `is_shown`.
    pub(crate) fn new(is_shown: bool) -> Self {
        Self {
            hasher: DefaultHasher::new(),
            line: String::new(),
            lines: is_shown.then(Vec::new),
        }
    }

    /// An event of a history that is shown.
    pub(crate) fn event(&mut self, now: Duration, what: fmt::Arguments<'_>) {
        self.line.clear();
        write!(self.line, "{:8.3} s  {what}", now.as_secs_f64()).expect("a text");
        self.line.hash(&mut self.hasher);
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    /// An event that is too frequent to be shown.
    pub(crate) fn detail(&mut self, what: impl Hash) {
        what.hash(&mut self.hasher);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
