//! `keys`: commands for the key files that replicas share.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::{Arguments, Command, ConfigFile, Stop};
use crate::gateway::keys::Algorithm;

mod folder;
mod generate;
mod list;
mod remove;
mod rotate;
#[cfg(test)]
mod tests;

pub(super) use generate::generate;
pub(super) use list::list;
pub(super) use remove::remove;
pub(super) use rotate::rotate;

/// The commands about key files.
#[derive(Debug, Subcommand)]
pub enum KeyCommands {
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

impl KeyCommands {
    /// `file` knows where the configuration is if the arguments do not say.
    pub(super) fn command(
        self,
        file: impl Fn(ConfigFile) -> Option<PathBuf>,
    ) -> Result<Command, Stop> {
        let found = |times: &mut KeyTimes| {
            let config = times.config.take();
            times.config = file(ConfigFile { config });
        };
        Ok(match self {
            Self::Generate(key) => {
                only_for_signing(key.purpose == KeyUse::Signing, key.algorithm)?;
                Command::GenerateKey(key)
            }
            Self::List(mut list) => {
                found(&mut list.times);
                Command::ListKeys(list)
            }
            Self::Rotate(mut keys) => {
                only_for_signing(keys.folder.purpose != Some(KeyUse::Sealing), keys.algorithm)?;
                found(&mut keys.folder.times);
                Command::RotateKeys(keys)
            }
            Self::Remove(key) => Command::RemoveKey(key),
        })
    }
}

/// The key to make.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct GenerateKey {
    /// The directory for the key
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: PathBuf,
    /// What the key is for
    #[arg(long = "use", value_enum, value_name = "USE", default_value_t = KeyUse::Signing)]
    pub purpose: KeyUse,
    /// The algorithm of a signing key [default: ES256]
    #[arg(long = "alg", value_enum, value_name = "ALG")]
    pub algorithm: Option<SigningAlgorithm>,
    /// When the use of the key begins: `now`, or a time such as 2030-01-31T12:00:00Z
    ///
    /// The format is RFC 3339. Verifiers must have a key before it is used. So by default the first
    /// key of its kind in the directory begins at once, and a further one after six minutes: 300 s,
    /// the default of `keys.jwks_max_age`, and 60 s for clocks that differ.
    #[arg(long, value_name = "TIME")]
    pub first_use: Option<FirstUse>,
}

/// Where to look for keys.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct ListKeys {
    /// The directory of the keys
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: PathBuf,
    /// How long they are honoured.
    #[command(flatten)]
    pub times: KeyTimes,
}

/// The keys to replace.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct RotateKeys {
    /// Which ones.
    #[command(flatten)]
    pub folder: KeyFolder,
    /// The algorithm of a new signing key [default: that of the newest one, else ES256]
    #[arg(long = "alg", value_enum, value_name = "ALG")]
    pub algorithm: Option<SigningAlgorithm>,
    /// How long each key is used; `0s` makes the next one now, unless one is waiting already
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30d")]
    pub every: Duration,
}

/// The key to remove.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct RemoveKey {
    /// The directory of the key
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: PathBuf,
    /// The key's id, as in `keys list`
    // One in 64 ids that are made here begins with a hyphen, which base64url has.
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    pub kid: String,
}

/// Keys of one purpose or of both.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct KeyFolder {
    /// The directory of the keys [default: those of the configuration]
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// What the keys are for [default: signing with --dir, else both]
    #[arg(long = "use", value_enum, value_name = "USE")]
    pub purpose: Option<KeyUse>,
    /// How long they are published and honoured.
    #[command(flatten)]
    pub times: KeyTimes,
}

/// How long keys wait and are honoured. The default is the configuration.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct KeyTimes {
    /// Where the settings are; without one, the defaults and the environment hold.
    #[arg(
        long,
        value_name = "FILE",
        help = "The configuration file with the times below [environment: AUTH_GATEWAY_CONFIG]"
    )]
    pub config: Option<PathBuf>,
    /// How long verifiers may keep the published keys, instead of `keys.jwks_max_age`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub jwks_max_age: Option<Duration>,
    /// Lifetime of access tokens, instead of `token.lifetime`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub token_lifetime: Option<Duration>,
    /// Lifetime of sessions, instead of `session.max_lifetime`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub session_max_lifetime: Option<Duration>,
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyUse {
    /// Signs access tokens
    Signing,
    /// Seals session tokens
    Sealing,
}

/// The algorithm of a signing key (RFC 7518 section 3.1, RFC 8037).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SigningAlgorithm {
    /// ECDSA on P-256
    #[value(name = "ES256")]
    Es256,
    /// Ed25519
    #[value(name = "EdDSA")]
    EdDsa,
    /// RSA, for verifiers that support no other
    #[value(name = "RS256")]
    Rs256,
}

/// When a key begins to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstUse {
    /// At once.
    Now,
    /// From this time on.
    At(Timestamp),
}

impl From<SigningAlgorithm> for Algorithm {
    fn from(algorithm: SigningAlgorithm) -> Self {
        match algorithm {
            SigningAlgorithm::Es256 => Self::Es256,
            SigningAlgorithm::EdDsa => Self::EdDsa,
            SigningAlgorithm::Rs256 => Self::Rs256,
        }
    }
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

/// Durations are written here as in the configuration.
fn duration(text: &str) -> Result<Duration, humantime_serde::re::humantime::DurationError> {
    humantime_serde::re::humantime::parse_duration(text)
}

fn only_for_signing(signing: bool, algorithm: Option<SigningAlgorithm>) -> Result<(), Stop> {
    if signing || algorithm.is_none() {
        return Ok(());
    }
    let problem = "--alg is for signing keys; sealing keys have one algorithm";
    Err(Arguments::command()
        .error(ErrorKind::ArgumentConflict, problem)
        .into())
}
