//! What an adapter can meet, named by meaning. The words are for logs and readiness, never for a
//! client, and hold no secret, no credential and no text that the IAM chose freely.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a call to the IAM did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IamError {
    /// The IAM says no to this user. The only variant that is not a fault.
    #[error("the IAM refused the login: {0}")]
    Refused(Refusal),
    /// No answer could be had: refused, reset, no such host.
    #[error("the IAM cannot be reached: {0}")]
    Unreachable(String),
    /// No answer within the deadline of the operation.
    #[error("the IAM did not answer within {0:?}")]
    TimedOut(Duration),
    /// The IAM answered that it failed (a 5xx).
    #[error("the IAM failed: {0}")]
    Failed(String),
    /// The IAM asks for fewer calls (a 429), with the pause it named.
    #[error("the IAM asks for fewer calls")]
    Throttled {
        /// Its `Retry-After`, where it sent one in seconds.
        retry_after: Option<Duration>,
    },
    /// The IAM said something that the adapter does not understand.
    #[error("the answer of the IAM cannot be read: {0}")]
    Unreadable(String),
    /// The IAM refuses the gateway itself, or is not the IAM it was configured to be.
    #[error("the IAM does not accept this gateway: {what} ({detail})")]
    Misconfigured {
        /// What is wrong, one of a fixed set.
        what: Misconfiguration,
        /// What was seen, and what to look at.
        detail: String,
    },
    /// The gateway's own bound on calls under way is reached; the IAM was not asked.
    #[error("too many calls to the IAM are under way")]
    Saturated,
    /// Too many calls failed of late, so the IAM was not asked: it is left alone for a moment.
    #[error("the IAM failed too often of late and was not asked")]
    CircuitOpen,
}

impl IamError {
    /// The variant as a short stable name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut(_) => "timed_out",
            Self::Failed(_) => "failed",
            Self::Throttled { .. } => "throttled",
            Self::Unreadable(_) => "unreadable",
            Self::Misconfigured { .. } => "misconfigured",
            Self::Saturated => "saturated",
            Self::CircuitOpen => "circuit_open",
        }
    }

    /// Shorthand for [`IamError::Misconfigured`].
    pub fn misconfigured(what: Misconfiguration, detail: impl Into<String>) -> Self {
        Self::Misconfigured {
            what,
            detail: detail.into(),
        }
    }
}

/// Why the IAM said no to a user. For the log alone: to the client all of these look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Unknown user, wrong password, or a lock that the IAM does not tell apart from them.
    #[error("invalid credentials")]
    InvalidCredentials,
    /// The account is disabled.
    #[error("account disabled")]
    Disabled,
    /// The account is locked for a while.
    #[error("account locked")]
    Locked,
    /// The account still has something to do at the IAM, such as setting a new password.
    #[error("account incomplete")]
    Incomplete,
}

impl Refusal {
    /// The reason as a short stable name.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::InvalidCredentials => "invalid_credentials",
            Self::Disabled => "disabled",
            Self::Locked => "locked",
            Self::Incomplete => "incomplete",
        }
    }
}

/// What keeps the gateway and the IAM from working together until somebody changes a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misconfiguration {
    /// The IAM does not know the gateway's client.
    #[error("unknown client")]
    UnknownClient,
    /// The IAM does not accept the gateway's secret.
    #[error("wrong client secret")]
    ClientSecret,
    /// The IAM has no such tenant (a realm, an organisation), or it is switched off.
    #[error("unknown or disabled tenant")]
    Tenant,
    /// The IAM does not let the gateway log users in with their password.
    #[error("login with a password is not allowed")]
    PasswordLogin,
    /// The IAM calls itself by another name than the configured one.
    #[error("another issuer")]
    Issuer,
    /// The IAM calls a living session dead: the gateway does not ask as it should.
    #[error("introspection does not recognise living sessions")]
    Introspection,
    /// The session was made by another client of the same IAM, which alone may ask about it.
    #[error("session of another client")]
    ForeignClient,
    /// The connection cannot be made secure, or is not as secure as the IAM demands.
    #[error("TLS")]
    Tls,
    /// Anything else that the IAM holds against the gateway.
    #[error("refused")]
    Other,
}

impl Misconfiguration {
    /// Whether a probe fails as long as it lasts. Otherwise only a login or an exchange shows that it
    /// is over.
    #[must_use]
    pub const fn fails_probes(self) -> bool {
        match self {
            Self::Introspection => false,
            Self::UnknownClient
            | Self::ClientSecret
            | Self::Tenant
            | Self::PasswordLogin
            | Self::Issuer
            | Self::ForeignClient
            | Self::Tls
            | Self::Other => true,
        }
    }

    /// The cause as a short stable name.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::UnknownClient => "unknown_client",
            Self::ClientSecret => "client_secret",
            Self::Tenant => "tenant",
            Self::PasswordLogin => "password_login",
            Self::Issuer => "issuer",
            Self::Introspection => "introspection",
            Self::ForeignClient => "foreign_client",
            Self::Tls => "tls",
            Self::Other => "other",
        }
    }
}
