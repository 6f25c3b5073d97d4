//! `audit`: the key of the audit log, and the identifiers in its lines.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use iam_adapters::ClientAddress;
use secrecy::ExposeSecret as _;
use zeroize::Zeroizing;

use super::Exit;
use super::error::UserError;
use crate::audit::Identifiers;
use crate::config::{self, Registry};
use crate::gateway::session::SessionId;

/// The commands about the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommands {
    /// Make the key of the identifiers, which all replicas share, as a new file
    ///
    /// It never changes: identifiers of another key cannot be compared with those before.
    GenerateKey(GenerateAuditKey),
    /// Compute the identifier of an account, a session or a client, to search for its lines
    Id(AuditId),
}

/// The key to make.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct GenerateAuditKey {
    /// The file to write, which must not exist
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
}

/// The identifier to compute.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct AuditId {
    /// The value.
    #[command(flatten)]
    pub value: AuditValue,
    /// The configuration file of the gateway.
    #[arg(
        long,
        value_name = "FILE",
        help = "The configuration file of the gateway, TOML [environment: AUTH_GATEWAY_CONFIG]"
    )]
    pub config: Option<PathBuf>,
}

/// What the identifier is of.
#[derive(Debug, PartialEq, Eq, Args)]
#[group(required = true, multiple = false)]
pub struct AuditValue {
    /// An e-mail address, for `account`
    #[arg(long, value_name = "EMAIL")]
    pub account: Option<String>,
    /// A `session_id`, for `session`
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub session: Option<String>,
    /// An address, for `client` and `network`
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<IpAddr>,
}

pub(super) fn generate_key(key: &GenerateAuditKey, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(&mut *bytes).map_err(|_| anyhow::anyhow!("no random numbers"))?;
    let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes));
    let shown = key.output.display();
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&key.output);
    let mut file = match made {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let problem = format!("--output {shown}: the file exists, and is not replaced");
            return Err(UserError::Request(problem).into());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
    };
    writeln!(file, "{}", *text)
        .and_then(|()| file.sync_all())
        .with_context(|| format!("cannot write {shown}"))?;
    writeln!(
        out,
        "{shown} written; name it in audit.key_file of every replica"
    )?;
    Ok(Exit::Ok)
}

pub(super) fn id(
    AuditId { value, config }: &AuditId,
    environment: &BTreeMap<String, String>,
    registry: &Registry,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let settings = config::load(config.as_deref(), environment, registry);
    let key = settings.map_err(UserError::from)?.audit.key;
    let key = key
        .ok_or_else(|| UserError::Request("the configuration has no audit.key_file".to_owned()))?;
    let ids = Identifiers::new(key.expose_secret().as_bytes());
    let id = match (&value.account, &value.session, value.client) {
        (Some(email), _, _) => ids.account(email).to_string(),
        (_, Some(session), _) => {
            let id = SessionId::parse(session);
            let id = id.ok_or_else(|| UserError::Request("--session: not a session id".to_owned()));
            ids.session(id?)
        }
        (_, _, Some(address)) => ids.network(ClientAddress::from(address)),
        // Refused by clap.
        (None, None, None) => String::new(),
    };
    writeln!(out, "{id}")?;
    Ok(Exit::Ok)
}
