//! `keys remove`.

use std::io::Write;

use jiff::Timestamp;

use super::folder::{Keys, key_use};
use crate::cli::run::Wrong;
use crate::cli::{Exit, KeyUse, RemoveKey};
use crate::gateway::keys;

pub(in crate::cli) fn remove(key: &RemoveKey, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let (directory, kid) = (key.directory.display(), &key.kid);
    let files = keys::read_dir(&key.directory).map_err(Wrong::from)?;
    let Some((path, found)) = files.into_iter().find(|(_, key)| key.kid() == kid) else {
        return Err(Wrong::Request(format!("no key {kid} in {directory}")).into());
    };
    let purpose = key_use(&found);
    if let Some(purpose) = purpose {
        let first_uses = Keys::read(&key.directory, purpose)
            .map_err(Wrong::from)?
            .first_uses();
        let later = |first_use: &Timestamp| *first_use > found.first_use();
        let in_use = found.first_use() <= Timestamp::now() || first_uses.len() == 1;
        if in_use && !first_uses.iter().any(later) {
            let purpose = purpose.name();
            return Err(Wrong::Request(format!(
                "{kid} is in use and has no successor: gateways would continue with it, or with \
                 an older one. Make its successor first: \
                 auth-gateway keys generate --dir {directory} --use {purpose} --first-use now"
            ))
            .into());
        }
    }
    keys::remove(&path).map_err(Wrong::from)?;
    writeln!(out, "{}  removed", path.display())?;
    match purpose {
        Some(KeyUse::Signing) => writeln!(
            out,
            "gateways stop signing with it when they read the directory again \
             (keys.reload_interval); verifiers refuse its signatures when they fetch the published \
             keys again (keys.jwks_max_age)"
        )?,
        Some(KeyUse::Sealing) => writeln!(
            out,
            "gateways refuse the sessions that it sealed when they read the directory again \
             (keys.reload_interval)"
        )?,
        None => {}
    }
    Ok(Exit::Ok)
}
