//! Scenarios that once violated a rule, in a file with one JSON object on a line.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::scenario::ModelScenario;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/api/model/regressions")
}

/// All of them. Panics on a line that cannot be read.
pub(super) fn all() -> Vec<ModelScenario> {
    let lines = fs::read_to_string(file()).expect("the file");
    let scenarios = lines.lines().filter(|iam| !iam.starts_with('#'));
    let scenarios = scenarios.map(|iam| serde_json::from_str(iam).expect("a scenario"));
    scenarios.collect()
}

/// Adds a scenario.
pub(super) fn add(scenario: &ModelScenario) -> io::Result<()> {
    let iam = serde_json::to_string(scenario)?;
    let mut file = OpenOptions::new().append(true).open(file())?;
    writeln!(file, "{iam}")
}
