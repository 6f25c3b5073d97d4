//! Identifiers of accounts, sessions and clients: keyed hashes. They are the same at every replica and
//! after every restart, as long as the key is.

use std::fmt;

use aws_lc_rs::hmac;
use iam_adapters::ClientAddress;
use serde::Serialize;

use crate::gateway::login_limiter::canonical;
use crate::gateway::session::SessionId;

/// What precedes a value in its hash, so that equal values of two kinds have different identifiers.
const ACCOUNT: &[u8] = b"auth-gateway audit account 1:";
const SESSION: &[u8] = b"auth-gateway audit session 1:";
const CLIENT: &[u8] = b"auth-gateway audit client 1:";

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

/// Computes the identifiers.
pub struct Identifiers {
    key: hmac::Key,
    pub(super) with_client_addresses: bool,
    pub(super) with_email_addresses: bool,
}

impl Identifiers {
    /// With this key, and without addresses in clear.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            with_client_addresses: false,
            with_email_addresses: false,
        }
    }

    /// The account of an e-mail address.
    #[must_use]
    pub fn account(&self, email: &str) -> AccountId {
        AccountId {
            account: self.hash(ACCOUNT, &canonical(email)),
            email: self.with_email_addresses.then(|| email.to_owned()),
        }
    }

    /// A session. Its id is one of its two credentials, so the log has a hash of it.
    #[must_use]
    pub fn session(&self, id: SessionId) -> String {
        self.hash(SESSION, id.to_string().as_bytes())
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
        self.hash(CLIENT, &address.network().octets())
    }

    /// 128 bits, in hexadecimal.
    fn hash(&self, kind: &[u8], value: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(kind);
        context.update(value);
        let tag = context.sign();
        let hash = tag.as_ref().first_chunk().copied().unwrap_or_default();
        format!("{:032x}", u128::from_be_bytes(hash))
    }
}

impl fmt::Debug for Identifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identifiers([REDACTED])")
    }
}
