//! Scenarios that once broke a promise, in a file: one on a line, as JSON.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::scenario::Scenario;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/api/model/regressions")
}

/// All of them. A line that no longer says anything is a mistake, not a thing of the past.
pub(super) fn all() -> Vec<Scenario> {
    let lines = fs::read_to_string(file()).expect("the file");
    let scenarios = lines.lines().filter(|line| !line.starts_with('#'));
    let scenarios = scenarios.map(|line| serde_json::from_str(line).expect("a scenario"));
    scenarios.collect()
}

/// Adds one.
pub(super) fn keep(scenario: &Scenario) -> io::Result<()> {
    let line = serde_json::to_string(scenario)?;
    let mut file = OpenOptions::new().append(true).open(file())?;
    writeln!(file, "{line}")
}
