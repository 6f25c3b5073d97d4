//! `keys generate`.

use std::io::Write;

use jiff::Timestamp;

use super::folder::Keys;
use crate::cli::run::Wrong;
use crate::cli::{Exit, FirstUse, GenerateKey, KeyUse};
use crate::config::KeySettings;
use crate::gateway::keys::{self, Algorithm, FileTimes, KeyPurpose};

pub(in crate::cli) fn generate(key: &GenerateKey, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let purpose = match key.purpose {
        KeyUse::Sealing => KeyPurpose::Sealing,
        KeyUse::Signing => {
            KeyPurpose::Signing(key.algorithm.map_or(Algorithm::Es256, Algorithm::from))
        }
    };
    let now = Timestamp::now();
    let max_age = KeySettings::default().jwks_max_age;
    let is_first = Keys::read(&key.directory, key.purpose)
        .map_err(Wrong::from)?
        .0
        .is_empty();
    let first_use = match key.first_use {
        Some(FirstUse::Now) => now,
        Some(FirstUse::At(time)) => time,
        // Without another key gateways use it at once.
        None if is_first => now,
        // By then all who keep the published keys have fetched it, whatever their clocks say.
        None => now + keys::lead(max_age),
    };
    let made = keys::generate(purpose, first_use).map_err(Wrong::from)?;
    let path = keys::write_new(&key.directory, &made).map_err(Wrong::from)?;
    let file = FileTimes {
        first_use,
        written: now,
    };
    let from = if is_first {
        first_use
    } else {
        file.begins(max_age).0
    };
    writeln!(out, "{}  used from {from:.0} on", path.display())?;
    Ok(Exit::Ok)
}
