//! `keys list`.

use std::collections::BTreeMap;
use std::io::Write;

use jiff::Timestamp;

use super::folder::{Keys, key_use};
use crate::cli::run::Wrong;
use crate::cli::{Exit, KeyUse, ListKeys};
use crate::config::Registry;
use crate::gateway::keys::{self, KeyPurpose, Standing};

pub(in crate::cli) fn list(
    list: &ListKeys,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let settings = list.times.settings(environment, registry)?;
    let files = keys::read_dir(&list.directory).map_err(Wrong::from)?;
    for purpose in [KeyUse::Signing, KeyUse::Sealing] {
        let mine = Keys::read(&list.directory, purpose).map_err(Wrong::from)?;
        let times = list.times.of(purpose, &settings);
        let standings = keys::standing(&mine.file_times(), times, Timestamp::now());
        for ((_, key), standing) in mine.0.iter().zip(standings) {
            let algorithm = match key.purpose() {
                Some(KeyPurpose::Signing(algorithm)) => algorithm.name(),
                Some(KeyPurpose::Sealing) | None => "A256GCM",
            };
            let (state, more) = match standing {
                Standing::Waiting { from, latest } => (
                    "waiting",
                    format!(
                        "  used from {from:.0} on, by every gateway from {latest:.0} at the latest"
                    ),
                ),
                Standing::Starting { latest } => (
                    "starting",
                    format!("  used by every gateway from {latest:.0} at the latest"),
                ),
                Standing::InUse => ("in use", String::new()),
                Standing::InUseUntil(latest) => {
                    ("in use", format!("  until {latest:.0} at the latest"))
                }
                Standing::HonouredUntil(end) => ("honoured", format!("  until {end:.0}")),
                Standing::RetiredSince(end) => ("retired", format!("  since {end:.0}")),
            };
            let (purpose, kid, first_use) = (purpose.name(), key.kid(), key.first_use());
            writeln!(
                out,
                "{purpose:<8} {algorithm:<8} {state:<9} {first_use:.0}  {kid}{more}"
            )?;
        }
    }
    for (_, key) in files.iter().filter(|(_, key)| key_use(key).is_none()) {
        let (first_use, kid) = (key.first_use(), key.kid());
        writeln!(out, "unknown  ?        unusable  {first_use:.0}  {kid}")?;
    }
    if files.is_empty() {
        writeln!(out, "no keys in {}", list.directory.display())?;
    }
    Ok(Exit::Ok)
}
