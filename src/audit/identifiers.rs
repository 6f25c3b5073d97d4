//! Accounts, sessions and clients in the lines: their identifiers, and their addresses in clear if the settings say so.

use std::fmt;
use std::sync::Arc;

use iam_adapters::ClientAddress;
use serde::Serialize;

use crate::gateway::identifiers::IdentifierKey;
use crate::gateway::session::SessionId;

/// An account, in the lines of logins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccountId {
    /// The identifier, the same for all spellings of the address.
    account: String,
    /// The address as it was sent, if the settings say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.account)
    }
}

/// The client of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClientId {
    /// The identifier of its network: an IPv4 address, or an IPv6 /64.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Its address, if the settings say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_address: Option<String>,
}

impl ClientId {
    /// What all addresses of its network have in common.
    pub(super) fn key(&self) -> Option<String> {
        self.client.clone()
    }
}

/// Makes the members of lines.
pub struct Identifiers {
    key: Arc<IdentifierKey>,
    pub(super) with_client_addresses: bool,
    pub(super) with_email_addresses: bool,
}

impl Identifiers {
    /// With this key, and without addresses in clear.
    #[must_use]
    pub const fn new(key: Arc<IdentifierKey>) -> Self {
        Self {
            key,
            with_client_addresses: false,
            with_email_addresses: false,
        }
    }

    /// The account of an e-mail address.
    #[must_use]
    pub fn account(&self, email: &str) -> AccountId {
        AccountId {
            account: self.key.account(email).to_string(),
            email: self.with_email_addresses.then(|| email.to_owned()),
        }
    }

    /// A session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> String {
        self.key.session(id).to_string()
    }

    /// The client at this address.
    #[must_use]
    pub fn client(&self, address: Option<ClientAddress>) -> ClientId {
        let clear = address.filter(|_| self.with_client_addresses);
        ClientId {
            client: address.map(|address| self.network(address)),
            client_address: clear.map(|address| address.to_string()),
        }
    }

    /// The network of this address.
    #[must_use]
    pub fn network(&self, address: ClientAddress) -> String {
        self.key.network(address.network()).to_string()
    }
}

impl fmt::Debug for Identifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identifiers([REDACTED])")
    }
}
