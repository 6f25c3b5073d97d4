//! `keys rotate`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use jiff::Timestamp;

use super::folder::Keys;
use crate::cli::run::Wrong;
use crate::cli::{Exit, KeyUse, RotateKeys};
use crate::config::Registry;
use crate::gateway::keys::{self, Algorithm, KeyPurpose, Times};

pub(in crate::cli) fn rotate(
    rotate: &RotateKeys,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let folder = &rotate.folder;
    let settings = folder.times.settings(environment, registry)?;
    let folders: Vec<(KeyUse, &Path)> = match &folder.directory {
        Some(directory) => vec![(folder.purpose.unwrap_or(KeyUse::Signing), directory)],
        None => [
            (KeyUse::Signing, &settings.keys.signing_dir),
            (KeyUse::Sealing, &settings.keys.sealing_dir),
        ]
        .into_iter()
        .filter(|(purpose, _)| folder.purpose.is_none_or(|asked| asked == *purpose))
        .filter_map(|(purpose, directory)| Some((purpose, directory.as_deref()?)))
        .collect(),
    };
    if folders.is_empty() {
        let problem = "the configuration names no directory of keys; name one with --dir";
        return Err(Wrong::Request(problem.to_owned()).into());
    }
    for (purpose, directory) in folders {
        let times = folder.times.of(purpose, &settings);
        turn(rotate, purpose, directory, times, out)?;
    }
    Ok(Exit::Ok)
}

fn turn(
    rotate: &RotateKeys,
    purpose: KeyUse,
    directory: &Path,
    times: Times,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let _turn = lock(directory)?;
    let now = Timestamp::now();
    let keys = Keys::read(directory, purpose).map_err(Wrong::from)?;
    let plan = keys::plan(&keys.first_uses(), times, rotate.every, now);
    if let Some(first_use) = plan.next {
        let newest = keys.0.last().and_then(|(_, key)| key.purpose());
        let made = match (purpose, newest) {
            (KeyUse::Sealing, _) => KeyPurpose::Sealing,
            (KeyUse::Signing, newest) => match (rotate.algorithm, newest) {
                (Some(algorithm), _) => KeyPurpose::Signing(algorithm.into()),
                (None, Some(like)) => like,
                (None, None) => KeyPurpose::Signing(Algorithm::Es256),
            },
        };
        let made = keys::generate(made, first_use).map_err(Wrong::from)?;
        let path = keys::write_new(directory, &made).map_err(Wrong::from)?;
        writeln!(out, "{}  used from {first_use:.0} on", path.display())?;
    } else if let Some((path, key)) = keys.0.last() {
        let (path, first_use) = (path.display(), key.first_use());
        let state = if first_use > now {
            "waits until"
        } else {
            "is not yet old enough, used since"
        };
        writeln!(out, "{path}  {state} {first_use:.0}: no key made")?;
    }
    for (path, _) in plan
        .retired
        .into_iter()
        .filter_map(|place| keys.0.get(place))
    {
        keys::remove(path).map_err(Wrong::from)?;
        writeln!(out, "{}  removed: no longer needed", path.display())?;
    }
    Ok(())
}

/// Two rotations at once would both find that the next key is missing. The lock ends with the
/// file, and where a file system has none, cron has to take care.
fn lock(directory: &Path) -> anyhow::Result<Option<File>> {
    std::fs::create_dir_all(directory)?;
    let file = File::open(directory)?;
    match file.lock() {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error.into()),
    }
}
