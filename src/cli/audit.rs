//! `audit`: the key of the audit log, and the identifiers in its lines.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use iam_adapters::ClientAddress;
use secrecy::ExposeSecret as _;
use zeroize::Zeroizing;

use super::error::UserError;
use super::{ConfigFile, Exit, Invocation, write_new};
use crate::audit::Identifiers;
use crate::gateway::session::SessionId;

/// The commands about the audit log.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum AuditCommand {
    /// Make the key of the identifiers, which all replicas share, as a new file
    ///
    /// It never changes: identifiers of another key cannot be compared with those before.
    GenerateKey {
        /// The file to write, which must not exist
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Compute the identifier of an account, a session or a client, to search for its lines
    Id {
        /// The value
        #[command(flatten)]
        value: AuditValue,
        /// The option `--config`
        #[command(flatten)]
        config: ConfigFile,
    },
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

pub(super) fn run(command: &AuditCommand, invocation: &mut Invocation<'_>) -> anyhow::Result<Exit> {
    match command {
        AuditCommand::GenerateKey { output } => generate_key(output, invocation.out),
        AuditCommand::Id { value, config } => id(value, config, invocation),
    }
}

fn generate_key(output: &Path, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(&mut *bytes).map_err(|_| anyhow::anyhow!("no random numbers"))?;
    let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes) + "\n");
    write_new(output, 0o600, &text)?;
    let shown = output.display();
    writeln!(
        out,
        "{shown} written; name it in audit.key_file of every replica"
    )?;
    Ok(Exit::Ok)
}

fn id(
    value: &AuditValue,
    config: &ConfigFile,
    invocation: &mut Invocation<'_>,
) -> anyhow::Result<Exit> {
    let key = invocation.settings(config)?.audit.key;
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
    writeln!(invocation.out, "{id}")?;
    Ok(Exit::Ok)
}
