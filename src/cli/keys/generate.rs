//! `keys generate`.

use std::io::Write;
use std::path::Path;

use jiff::Timestamp;

use super::folder::Keys;
use crate::cli::run::Wrong;
use crate::cli::{Exit, FirstUse, GenerateKey, KeyUse};
use crate::config::KeySettings;
use crate::gateway::keys::{self, Algorithm, KeyPurpose};

pub(in crate::cli) fn generate(key: &GenerateKey, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let purpose = match key.purpose {
        KeyUse::Sealing => KeyPurpose::Sealing,
        KeyUse::Signing => {
            KeyPurpose::Signing(key.algorithm.map_or(Algorithm::Es256, Algorithm::from))
        }
    };
    let first_use = match key.first_use {
        Some(FirstUse::Now) => Timestamp::now(),
        Some(FirstUse::At(time)) => time,
        None => soonest(&key.directory, key.purpose)?,
    };
    let made = keys::generate(purpose, first_use).map_err(Wrong::from)?;
    let path = keys::write_new(&key.directory, &made).map_err(Wrong::from)?;
    writeln!(out, "{}  used from {first_use:.0} on", path.display())?;
    Ok(Exit::Ok)
}

/// The first key of its purpose begins at once: nobody can work without. A further one begins when
/// everybody who keeps the published keys has seen it, whatever their clocks say.
fn soonest(directory: &Path, purpose: KeyUse) -> Result<Timestamp, Wrong> {
    let now = Timestamp::now();
    if Keys::read(directory, purpose)?.0.is_empty() {
        Ok(now)
    } else {
        Ok(now + keys::lead(KeySettings::default().jwks_max_age))
    }
}
