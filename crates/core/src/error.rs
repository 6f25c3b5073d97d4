//! Errors of the gateway: the second of three error types. The first is [`IamError`], of the
//! adapter; the third is the error response, in `http::api_error`.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use iam_adapters::logout_token::InvalidLogoutToken;
use iam_adapters::single_flight::LostTask;
use iam_adapters::{IamError, LogoutTokenError, Refusal};
use strum::{Display, IntoStaticStr, VariantArray};
use thiserror::Error;

/// Why an operation failed. The cause is the error's source, or the error itself if the gateway adds
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GatewayError {
    /// The IAM refused the credentials. The reason is for the log only.
    #[error("login refused")]
    Refused(#[source] Refusal),
    /// The session is not accepted. The reason is for the log only.
    #[error("invalid session")]
    InvalidSession(#[from] InvalidSession),
    /// No requested scope can be granted, and `token.refuse_empty_scope` is set.
    #[error("no requested scope can be granted")]
    NothingGranted,
    /// The logout token is invalid. The reason is for the log only.
    #[error("invalid logout token")]
    InvalidLogoutToken(#[source] InvalidLogoutToken),
    /// The sender of a logout token has sent too many invalid ones. It was not read.
    #[error("too many invalid logout tokens")]
    TooManyLogoutTokens {
        /// How long to wait.
        retry_after: Duration,
    },
    /// The IAM sends no logout tokens.
    #[error("this IAM sends no logout tokens")]
    NoLogoutTokens,
    /// The IAM could not be called, or failed. A retry may succeed.
    #[error(transparent)]
    Unavailable(IamError),
    /// The IAM exceeded its deadline. A retry may succeed.
    #[error(transparent)]
    TooSlow(IamError),
    /// The IAM is misconfigured, or its response cannot be parsed. An operator must act.
    #[error(transparent)]
    Broken(IamError),
    /// A login limit is reached. The IAM was not called.
    #[error("too many logins: the limit of the {limit}")]
    TooManyLogins {
        /// The limit.
        limit: Limit,
        /// How long to wait.
        retry_after: Duration,
    },
    /// The IAM, or the source of the permissions, asks for fewer calls.
    #[error("{fault}")]
    Throttled {
        /// Which of them.
        fault: IamError,
        /// The pause that it named.
        retry_after: Option<Duration>,
    },
    /// The most concurrent calls to the IAM, or to the source of the permissions, are in progress.
    #[error(transparent)]
    Full(IamError),
    /// This replica cannot serve the request now. A retry, or another replica, may succeed.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The gateway itself failed.
    #[error("internal error")]
    Internal(#[from] Internal),
}

/// Why a session is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum InvalidSession {
    /// Not in the format of a session token.
    #[error("malformed token")]
    Malformed,
    /// Sealed with a key that this gateway does not have.
    #[error("sealed with an unknown key")]
    UnknownKey,
    /// The session token fails authentication.
    #[error("broken seal")]
    Tampered,
    /// The session id is that of another session.
    #[error("id and token are not of one session")]
    Mismatch,
    /// From an IAM that is not configured.
    #[error("session of another IAM")]
    Foreign,
    /// It has expired.
    #[error("expired")]
    Expired,
    /// Logged out at this gateway, or revoked by an operator.
    #[error("logged out or revoked")]
    Revoked,
    /// The IAM reported that it ended, or all sessions of its subject were revoked.
    #[error("ended at the IAM, or all sessions of the subject were revoked")]
    Ended,
}

/// Why a replica cannot serve a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotReady {
    /// It does not yet know the revocations of the other replicas from before its start.
    #[error("revocations of the other replicas are not known yet")]
    CatchingUp,
    /// The table of revocations has no room for further sessions.
    #[error("too many live revocations")]
    TooManyRevocations,
}

/// A failure of the gateway itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Internal {
    /// The system has no random numbers.
    #[error("no random numbers")]
    Random,
    /// The key in use does not sign.
    #[error("the signing key fails")]
    Signing,
    /// A value could not be serialized.
    #[error("a value could not be serialized")]
    Encoding,
    /// The IAM's session is too large for a session token.
    #[error("the upstream session is too large for a session token")]
    SessionTooLarge,
    /// The session's key may be one that this replica could not read.
    #[error("sealed with an unknown key, while the sealing keys cannot be read")]
    KeysUnreadable,
    /// A task panicked, or was dropped with its runtime.
    #[error(transparent)]
    LostTask(LostTask),
}

impl From<LostTask> for GatewayError {
    fn from(lost: LostTask) -> Self {
        Self::Internal(Internal::LostTask(lost))
    }
}

impl From<IamError> for GatewayError {
    fn from(error: IamError) -> Self {
        match *error.fault() {
            IamError::Refused(refusal) => Self::Refused(refusal),
            IamError::Unreachable(_)
            | IamError::Disconnected(_)
            | IamError::Failed(_)
            | IamError::CircuitOpen
            | IamError::PermissionSource(_)
            | IamError::PossibleRefusal(_) => Self::Unavailable(error),
            IamError::TimedOut(_) => Self::TooSlow(error),
            IamError::Unreadable(_)
            | IamError::UnreadableSession(_)
            | IamError::Misconfigured { .. } => Self::Broken(error),
            IamError::Throttled { retry_after } => Self::Throttled {
                fault: error,
                retry_after,
            },
            IamError::Saturated => Self::Full(error),
        }
    }
}

impl From<LogoutTokenError> for GatewayError {
    fn from(error: LogoutTokenError) -> Self {
        match error {
            LogoutTokenError::Invalid(why) => Self::InvalidLogoutToken(why),
            LogoutTokenError::NoKeys(fault) => fault.into(),
        }
    }
}

/// The limit that an attempt exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray, Display)]
#[strum(serialize_all = "snake_case")]
pub enum Limit {
    /// Refused logins of an account.
    Account,
    /// The slow rate of an account, after failures in a row.
    AccountSlow,
    /// New sessions of an account.
    AccountSessions,
    /// Refused logins from an address, or from the network around it.
    Address,
    /// Logins from this replica that reach one IAM.
    Replica,
}
