//! `keys`: commands for the key files that replicas share.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use iam_adapters::files;
use iam_adapters::name::Name as _;
use jiff::Timestamp;
use serde::Serialize;
use strum::IntoStaticStr;

use super::error::UserError;
use super::{ConfigFile, Exit, Invocation};
use crate::config::{KeySettings, Settings};
use auth_gateway_core::keys::{
    self, Algorithm, FileTimes, KeyError, KeyFile, KeyPurpose, KeyState, SealingKey, Times,
};

/// That of the first signing key if the arguments name none.
const DEFAULT_ALGORITHM: Algorithm = Algorithm::Es256;

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum KeyCommand {
    /// Make a key, as a new file in the directory
    Generate(GenerateKey),
    /// List the keys in a directory, with `first_use` and the state that follows from the files
    ///
    /// A gateway delays the use of a new key until verifiers can have fetched it. The list has the
    /// time from which gateways use it, and until which some may still use the one before. If the
    /// key in use was removed, they use the next one at once. `/health/ready` of a gateway has the
    /// keys that it uses now.
    List(ListKeys),
    /// Make the next key if one is due, and remove keys that are no longer needed
    ///
    /// Run it regularly, for example once a day by cron: it does nothing if nothing is due. The next
    /// key has the algorithm of the newest one. It is published at once, and used when all verifiers
    /// that keep the published keys can have it.
    Rotate(RotateKeys),
    /// Remove one key, for example a stolen one
    ///
    /// Running gateways read the directory again. Verifiers refuse the tokens of a signing key when
    /// they fetch the published keys again. Gateways refuse the sessions of a sealing key at once.
    Remove(RemoveKey),
}

impl KeyCommand {
    /// Whether `--alg` is set for sealing keys.
    pub(super) fn selects_algorithm_of_sealing(&self) -> bool {
        match self {
            Self::Generate(key) => key.algorithm.is_some() && key.purpose == Some(KeyUse::Sealing),
            Self::Rotate(keys) => keys.algorithm.is_some() && keys.purpose == Some(KeyUse::Sealing),
            Self::List(_) | Self::Remove(_) => false,
        }
    }
}

pub(super) fn run(command: &KeyCommand, invocation: &mut Invocation<'_>) -> anyhow::Result<Exit> {
    match command {
        KeyCommand::Generate(key) => generate(key, invocation.out),
        KeyCommand::List(keys) => list(keys, invocation),
        KeyCommand::Rotate(keys) => rotate(keys, invocation),
        KeyCommand::Remove(key) => remove(key, invocation.out),
    }
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct GenerateKey {
    /// The directory for the key
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: PathBuf,
    /// What the key is for [default: signing]
    #[arg(long = "use", value_enum, value_name = "USE")]
    pub purpose: Option<KeyUse>,
    /// The algorithm of a signing key [default: ES256]
    #[arg(long = "alg", value_name = "ALG", value_parser = algorithms())]
    pub algorithm: Option<Algorithm>,
    /// When the use of the key begins: `now`, or a time such as 2030-01-31T12:00:00Z
    ///
    /// The format is RFC 3339. Verifiers must have a key before it is used. So by default the first
    /// key of its kind in the directory begins at once, and a further one after six minutes: 300 s,
    /// the default of `keys.jwks_max_age`, and 60 s for clocks that differ.
    #[arg(long, value_name = "TIME")]
    pub first_use: Option<FirstUse>,
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct ListKeys {
    /// The directory of the keys
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: PathBuf,
    /// Write an array of JSON objects
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub times: KeyTimes,
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct RotateKeys {
    /// The directory of the keys [default: those of the configuration]
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// What the keys are for [default: signing with --dir, else both]
    #[arg(long = "use", value_enum, value_name = "USE")]
    pub purpose: Option<KeyUse>,
    #[command(flatten)]
    pub times: KeyTimes,
    /// The algorithm of a new signing key [default: that of the newest one, else ES256]
    #[arg(long = "alg", value_name = "ALG", value_parser = algorithms())]
    pub algorithm: Option<Algorithm>,
    /// How long each key is used; `0s` makes the next one now, unless one is waiting already
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30d")]
    pub every: Duration,
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct RemoveKey {
    /// The directory of the key
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: PathBuf,
    /// The key's id, as in `keys list`
    // One in 64 generated ids begins with a hyphen, a character of base64url.
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    pub kid: String,
}

/// The durations that determine the states of keys. The defaults come from the configuration.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct KeyTimes {
    /// The option `--config`, the file with the durations below
    #[command(flatten)]
    pub config: ConfigFile,
    /// How long verifiers may keep the published keys, instead of `keys.jwks_max_age`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub jwks_max_age: Option<Duration>,
    /// Lifetime of access tokens, instead of `token.lifetime`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub token_lifetime: Option<Duration>,
    /// Lifetime of sessions, instead of the longest `max_lifetime` of an IAM
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub session_max_lifetime: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum KeyUse {
    /// Signs access tokens
    Signing,
    /// Seals session tokens
    Sealing,
}

/// When a key begins to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstUse {
    Now,
    At(Timestamp),
}

impl FromStr for FirstUse {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "now" {
            return Ok(Self::Now);
        }
        let time = text.parse().map(Self::At);
        time.map_err(|_| "neither `now` nor a time such as 2030-01-31T12:00:00Z")
    }
}

/// The algorithms of signing keys (RFC 7518 section 3.1, RFC 8037).
fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    let algorithms = [
        (Algorithm::Es256, "ECDSA on P-256"),
        (Algorithm::EdDsa, "Ed25519"),
        (Algorithm::Rs256, "RSA, for verifiers that support no other"),
    ];
    let value = |(one, help): (Algorithm, _)| PossibleValue::new(one.name()).help(help);
    PossibleValuesParser::new(algorithms.map(value)).try_map(|name| name.parse::<Algorithm>())
}

/// Durations are written here as in the configuration.
fn duration(text: &str) -> Result<Duration, humantime_serde::re::humantime::DurationError> {
    humantime_serde::re::humantime::parse_duration(text)
}

fn generate(key: &GenerateKey, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let key_use = use_in(&key.directory, key.purpose)?;
    let purpose = match key_use {
        KeyUse::Sealing => KeyPurpose::Sealing,
        KeyUse::Signing => KeyPurpose::Signing(key.algorithm.unwrap_or(DEFAULT_ALGORITHM)),
    };
    let now = Timestamp::now();
    let max_age = KeySettings::default().jwks_max_age;
    let is_first = read(&key.directory, key_use)?.is_empty();
    let first_use = match key.first_use {
        Some(FirstUse::Now) => now,
        Some(FirstUse::At(time)) => time,
        // Without another key, gateways use it at once.
        None if is_first => now,
        // By then all verifiers have fetched it, even with different clocks.
        None => now + keys::lead(max_age),
    };
    let path = make(&key.directory, purpose, first_use)?;
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

/// Makes a key; returns its file.
fn make(directory: &Path, purpose: KeyPurpose, first_use: Timestamp) -> Result<PathBuf, UserError> {
    let made = keys::generate(purpose, first_use)?;
    Ok(keys::write_new(directory, &made)?)
}

fn list(list: &ListKeys, invocation: &mut Invocation<'_>) -> anyhow::Result<Exit> {
    let settings = invocation.settings(&list.times.config)?;
    let out = &mut invocation.out;
    let files = keys::read_dir(&list.directory).map_err(UserError::from)?;
    let mut listed = Vec::new();
    for purpose in [KeyUse::Signing, KeyUse::Sealing] {
        let keys_of_purpose = read(&list.directory, purpose)?;
        let times = list.times.of(purpose, &settings);
        let file_times: Vec<_> = keys_of_purpose.iter().map(file_times).collect();
        let states = keys::key_states(&file_times, times, Timestamp::now());
        for ((_, key), key_state) in keys_of_purpose.iter().zip(states) {
            listed.push(ListedKey::new(Some((purpose, key_state)), key));
        }
    }
    let unknown = files.iter().filter(|(_, key)| key_use(key).is_none());
    listed.extend(unknown.map(|(_, key)| ListedKey::new(None, key)));
    if list.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&listed)?)?;
        return Ok(Exit::Ok);
    }
    for key in &listed {
        writeln!(out, "{key}")?;
    }
    if files.is_empty() {
        writeln!(out, "no keys in {}", list.directory.display())?;
    }
    Ok(Exit::Ok)
}

/// A key in a list. Times are RFC 3339, in whole seconds.
#[derive(Serialize)]
struct ListedKey {
    purpose: &'static str,
    algorithm: &'static str,
    state: &'static str,
    first_use: String,
    kid: String,
    /// The times of the state: `used_from`, from when on some gateways use the key; `used_by_all_from`,
    /// from when on every gateway uses it, at the latest; `used_until`, until when some gateways may use
    /// it; `honoured_until`, until when its tokens or sessions are accepted; `retired_since`, since when
    /// nothing needs it.
    #[serde(flatten)]
    times: BTreeMap<&'static str, String>,
    /// The same times for the line of text.
    #[serde(skip)]
    description: String,
}

impl ListedKey {
    /// A key with its purpose and state; `None`: its algorithm is not known.
    fn new(of: Option<(KeyUse, KeyState)>, key: &KeyFile) -> Self {
        let second = |time: Timestamp| format!("{time:.0}");
        let (state, times, description) = match of.map(|(_, state)| state) {
            None => ("unusable", Vec::new(), String::new()),
            Some(KeyState::Waiting { from, latest }) => (
                "waiting",
                vec![("used_from", from), ("used_by_all_from", latest)],
                format!(
                    "  used from {from:.0} on, by every gateway from {latest:.0} at the latest"
                ),
            ),
            Some(KeyState::Starting { latest }) => (
                "starting",
                vec![("used_by_all_from", latest)],
                format!("  used by every gateway from {latest:.0} at the latest"),
            ),
            Some(KeyState::InUse) => ("in use", Vec::new(), String::new()),
            Some(KeyState::InUseUntil(latest)) => (
                "in use",
                vec![("used_until", latest)],
                format!("  until {latest:.0} at the latest"),
            ),
            Some(KeyState::HonouredUntil(end)) => (
                "honoured",
                vec![("honoured_until", end)],
                format!("  until {end:.0}"),
            ),
            Some(KeyState::RetiredSince(end)) => (
                "retired",
                vec![("retired_since", end)],
                format!("  since {end:.0}"),
            ),
        };
        let times = times.into_iter().map(|(name, time)| (name, second(time)));
        Self {
            purpose: of.map_or("unknown", |(purpose, _)| purpose.name()),
            algorithm: match key.purpose() {
                Some(KeyPurpose::Signing(algorithm)) => algorithm.name(),
                Some(KeyPurpose::Sealing) => SealingKey::ALGORITHM,
                None => "?",
            },
            state,
            first_use: second(key.first_use()),
            kid: key.kid().to_owned(),
            times: times.collect(),
            description,
        }
    }
}

impl fmt::Display for ListedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            purpose,
            algorithm,
            state,
            first_use,
            kid,
            description,
            ..
        } = self;
        write!(
            f,
            "{purpose:<8} {algorithm:<8} {state:<9} {first_use}  {kid}{description}"
        )
    }
}

fn rotate(rotate: &RotateKeys, invocation: &mut Invocation<'_>) -> anyhow::Result<Exit> {
    let settings = invocation.settings(&rotate.times.config)?;
    let folders: Vec<(KeyUse, &Path)> = match &rotate.directory {
        Some(directory) => vec![(use_in(directory, rotate.purpose)?, directory)],
        None => [
            (KeyUse::Signing, &settings.keys.signing_dir),
            (KeyUse::Sealing, &settings.keys.sealing_dir),
        ]
        .into_iter()
        .filter(|(purpose, _)| rotate.purpose.is_none_or(|asked| asked == *purpose))
        .filter_map(|(purpose, directory)| Some((purpose, directory.as_deref()?)))
        .collect(),
    };
    if folders.is_empty() {
        let problem = "the configuration names no directory of keys; name one with --dir";
        return Err(UserError::Request(problem.to_owned()).into());
    }
    // Nothing is made in one folder if another one cannot be used.
    for (purpose, directory) in &folders {
        read(directory, *purpose)?;
    }
    let mut lines: Vec<u8> = Vec::new();
    let done = folders.into_iter().try_for_each(|(purpose, directory)| {
        let times = rotate.times.of(purpose, &settings);
        rotate_directory(rotate, purpose, directory, times, &mut lines)
    });
    // Only now, because an output that is closed must not end a rotation, and also what was done before a failure.
    let written = invocation.out.write_all(&lines);
    done?;
    written?;
    Ok(Exit::Ok)
}

fn rotate_directory(
    rotate: &RotateKeys,
    purpose: KeyUse,
    directory: &Path,
    times: Times,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let _lock = lock(directory)?;
    let now = Timestamp::now();
    let files = read(directory, purpose)?;
    let file_times: Vec<_> = files.iter().map(file_times).collect();
    let plan = keys::plan(&file_times, times, rotate.every, now);
    if let Some(first_use) = plan.next {
        let newest = files.last().and_then(|(_, key)| key.purpose());
        let made = match (purpose, rotate.algorithm, newest) {
            (KeyUse::Sealing, ..) => KeyPurpose::Sealing,
            (KeyUse::Signing, Some(algorithm), _) => KeyPurpose::Signing(algorithm),
            (KeyUse::Signing, None, Some(newest)) => newest,
            (KeyUse::Signing, None, None) => KeyPurpose::Signing(DEFAULT_ALGORITHM),
        };
        let path = make(directory, made, first_use)?;
        writeln!(out, "{}  used from {first_use:.0} on", path.display())?;
    } else if let Some((path, key)) = files.last() {
        let (path, first_use) = (path.display(), key.first_use());
        let state = if first_use > now {
            "waits until"
        } else {
            "is not yet old enough, used since"
        };
        writeln!(out, "{path}  {state} {first_use:.0}: no key made")?;
    }
    let retired = plan.retired.into_iter();
    for (path, _) in retired.filter_map(|place| files.get(place)) {
        keys::remove(path).map_err(UserError::from)?;
        writeln!(out, "{}  removed: no longer needed", path.display())?;
    }
    Ok(())
}

/// Locks the directory, because two rotations at once would make two keys. The lock ends with the
/// file. `None` if the file system has no locks.
fn lock(directory: &Path) -> Result<Option<File>, UserError> {
    let io = |source| UserError::from(KeyError::Io(directory.to_owned(), source));
    files::create_folder(directory).map_err(io)?;
    let file = File::open(directory).map_err(io)?;
    match file.lock() {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(io(error)),
    }
}

fn remove(key: &RemoveKey, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let (directory, kid) = (key.directory.display(), &key.kid);
    let files = keys::read_dir(&key.directory).map_err(UserError::from)?;
    let Some((path, found)) = files.into_iter().find(|(_, key)| key.kid() == kid) else {
        return Err(UserError::Request(format!("no key {kid} in {directory}")).into());
    };
    let purpose = key_use(&found);
    if let Some(purpose) = purpose {
        let first_uses = first_uses(&read(&key.directory, purpose)?);
        let later = |first_use: &Timestamp| *first_use > found.first_use();
        let in_use = found.first_use() <= Timestamp::now() || first_uses.len() == 1;
        if in_use && !first_uses.iter().any(later) {
            let purpose = purpose.name();
            let algorithm = match found.purpose() {
                Some(KeyPurpose::Signing(algorithm)) if algorithm != DEFAULT_ALGORITHM => {
                    format!(" --alg {}", algorithm.name())
                }
                _ => String::new(),
            };
            return Err(UserError::Request(format!(
                "{kid} is in use and has no successor: gateways would continue with it, or with \
                 an older one. Make its successor first: \
                 auth-gateway keys generate --dir {directory} --use {purpose}{algorithm} --first-use now"
            ))
            .into());
        }
    }
    keys::remove(&path).map_err(UserError::from)?;
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

/// The keys of one purpose in a directory, which may not exist yet, in the order of first use.
fn read(directory: &Path, purpose: KeyUse) -> Result<Vec<(PathBuf, KeyFile)>, UserError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut files = keys::read_dir(directory)?;
    files.retain(|(_, key)| key_use(key) == Some(purpose));
    files.sort_by_key(|(_, key)| key.first_use());
    Ok(files)
}

/// What the next key in a directory is for: what `--use` says, else signing. A directory of sealing keys alone is
/// refused then, because a signing key in it would never be used.
fn use_in(directory: &Path, asked: Option<KeyUse>) -> Result<KeyUse, UserError> {
    if let Some(asked) = asked {
        return Ok(asked);
    }
    let has_sealing = !read(directory, KeyUse::Sealing)?.is_empty();
    if has_sealing && read(directory, KeyUse::Signing)?.is_empty() {
        let problem = format!(
            "{} has only sealing keys; set --use sealing, or --use signing for a signing key",
            directory.display()
        );
        return Err(UserError::Request(problem));
    }
    Ok(KeyUse::Signing)
}

fn first_uses(files: &[(PathBuf, KeyFile)]) -> Vec<Timestamp> {
    files.iter().map(|(_, key)| key.first_use()).collect()
}

/// A file that was removed meanwhile is listed as if it had been written in time.
fn file_times((path, key): &(PathBuf, KeyFile)) -> FileTimes {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let written = modified
        .ok()
        .and_then(|time| Timestamp::try_from(time).ok());
    FileTimes {
        first_use: key.first_use(),
        written: written.unwrap_or_else(|| key.first_use()),
    }
}

/// What a key is for; `None` if its `alg` is missing or unknown.
fn key_use(key: &KeyFile) -> Option<KeyUse> {
    Some(match key.purpose()? {
        KeyPurpose::Signing(_) => KeyUse::Signing,
        KeyPurpose::Sealing => KeyUse::Sealing,
    })
}

impl KeyTimes {
    fn of(&self, purpose: KeyUse, settings: &Settings) -> Times {
        let lifetime = match purpose {
            KeyUse::Signing => self.token_lifetime.unwrap_or(settings.token.lifetime),
            KeyUse::Sealing => {
                let lifetime = self.session_max_lifetime;
                lifetime.unwrap_or_else(|| settings.session_max_lifetime())
            }
        };
        Times {
            max_age: self.jwks_max_age.unwrap_or(settings.keys.jwks_max_age),
            lifetime,
        }
    }
}

#[cfg(test)]
mod tests;
