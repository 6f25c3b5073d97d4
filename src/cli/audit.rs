//! `audit`: the identifiers in the lines of the audit log and of the log.

use std::net::IpAddr;

use clap::{Args, Subcommand};
use iam_adapters::ClientAddress;
use secrecy::ExposeSecret as _;

use super::error::UserError;
use super::{ConfigFile, Exit, Invocation};
use auth_gateway_core::identifiers::IdentifierKey;
use auth_gateway_core::session_id::SessionId;

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum AuditCommand {
    /// Compute the identifier of an account, a session or a client, to search for its lines
    Id {
        #[command(flatten)]
        value: AuditValue,
        #[command(flatten)]
        config: ConfigFile,
    },
}

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

pub(super) fn run(
    AuditCommand::Id { value, config }: &AuditCommand,
    invocation: &mut Invocation<'_>,
) -> anyhow::Result<Exit> {
    let key = invocation.settings_for("keys", config)?.keys.identifier_key;
    let key = key.ok_or_else(|| {
        UserError::Request("the configuration has no keys.identifier_key_file".to_owned())
    })?;
    let key = IdentifierKey::new(key.expose_secret().as_bytes());
    let id = match (&value.account, &value.session, value.client) {
        (Some(email), _, _) => Some(key.account(email)),
        (_, Some(session), _) => {
            let id = SessionId::parse(session);
            let id = id.ok_or_else(|| UserError::Request("--session: not a session id".to_owned()));
            Some(key.session(&id?.to_string()))
        }
        (_, _, Some(address)) => Some(key.network(ClientAddress::from(address).network())),
        // Refused by clap.
        (None, None, None) => None,
    };
    if let Some(id) = id {
        writeln!(invocation.out, "{id}")?;
    }
    Ok(Exit::Ok)
}
