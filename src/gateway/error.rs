//! What a failure means to the gateway: the second of three vocabularies. The first is
//! [`IamError`], what the adapter met; the third is the response, in `http::problem`.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use iam_adapters::logout_token::InvalidLogoutToken;
use iam_adapters::{IamError, LogoutTokenError, Refusal};
use thiserror::Error;

use super::login_limiter::Limit;

/// Why an operation did not succeed. The cause is the error's source, or the error itself where the
/// gateway adds nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GatewayError {
    /// The credentials are not good. The reason is for the log alone.
    #[error("login refused")]
    Refused(#[source] Refusal),
    /// The session cannot be used. The reason is for the log alone.
    #[error("invalid session")]
    InvalidSession(#[source] InvalidSession),
    /// Nothing that was asked for may be held, and the configuration wants that refused.
    #[error("none of the scope asked for may be held")]
    NothingGranted,
    /// The logout token is not good. The reason is for the log alone.
    #[error("invalid logout token")]
    InvalidLogoutToken(#[source] InvalidLogoutToken),
    /// The IAM sends no logout tokens.
    #[error("this IAM sends no logout tokens")]
    NoLogoutTokens,
    /// The IAM could not be asked, or failed; trying again helps.
    #[error(transparent)]
    Unavailable(IamError),
    /// The IAM took too long; trying again may help.
    #[error(transparent)]
    TooSlow(IamError),
    /// The IAM and this gateway do not understand each other; only an operator can help.
    #[error(transparent)]
    Broken(IamError),
    /// There were too many logins already. The IAM was not asked.
    #[error("too many logins: the limit of the {limit}")]
    TooManyLogins {
        /// Which limit it was.
        limit: Limit,
        /// How long to wait.
        retry_after: Duration,
    },
    /// The IAM asks for fewer calls.
    #[error("the IAM asks for fewer calls")]
    Throttled {
        /// The pause it asks for.
        retry_after: Option<Duration>,
    },
    /// The gateway has as many calls to the IAM under way as it may have.
    #[error("too many calls to the IAM are under way")]
    Full,
    /// This replica cannot do this now; trying again later, or at another replica, helps.
    #[error(transparent)]
    NotReady(NotReady),
    /// The gateway itself failed.
    #[error("internal error")]
    Internal(#[source] Internal),
}

/// Why a session cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidSession {
    /// Not of the form of a session token.
    #[error("malformed token")]
    Malformed,
    /// Sealed with a key that this gateway does not have, or has no longer.
    #[error("sealed with an unknown key")]
    UnknownKey,
    /// The seal is broken.
    #[error("broken seal")]
    Tampered,
    /// The session id is another session's.
    #[error("id and token are not of one session")]
    Mismatch,
    /// Made at another IAM than the configured one.
    #[error("session of another IAM")]
    Foreign,
    /// Its time is over.
    #[error("expired")]
    Expired,
    /// Logged out here.
    #[error("logged out")]
    Revoked,
    /// The IAM says that it ended.
    #[error("ended at the IAM")]
    Ended,
}

/// What a replica lacks to do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotReady {
    /// It does not know yet what ended at the other replicas before it started.
    #[error("revocations of the other replicas are not known yet")]
    CatchingUp,
    /// The table of revocations has no room for the ends of further sessions.
    #[error("too many live revocations")]
    TooManyRevocations,
}

/// What can go wrong in the gateway itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Internal {
    /// The machine gives no random numbers.
    #[error("no random numbers")]
    Random,
    /// The key in use does not sign.
    #[error("the signing key fails")]
    Signing,
    /// Something could not be written in its own format.
    #[error("encoding")]
    Encoding,
    /// The IAM's session is too large to be carried in a session token.
    #[error("the upstream session is too large for a session token")]
    SessionTooLarge,
    /// A session whose key may be among those that this replica could not read.
    #[error("sealed with an unknown key, while the sealing keys cannot be read")]
    KeysUnreadable,
    /// A task ended without its answer: it panicked.
    #[error("a task was lost")]
    LostTask,
}

impl From<IamError> for GatewayError {
    fn from(error: IamError) -> Self {
        match error {
            IamError::Refused(refusal) => Self::Refused(refusal),
            IamError::Unreachable(_) | IamError::Failed(_) | IamError::CircuitOpen => {
                Self::Unavailable(error)
            }
            IamError::TimedOut(_) => Self::TooSlow(error),
            IamError::Unreadable(_) | IamError::Misconfigured { .. } => Self::Broken(error),
            IamError::Throttled { retry_after } => Self::Throttled { retry_after },
            IamError::Saturated => Self::Full,
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

impl From<InvalidSession> for GatewayError {
    fn from(reason: InvalidSession) -> Self {
        Self::InvalidSession(reason)
    }
}

impl From<NotReady> for GatewayError {
    fn from(reason: NotReady) -> Self {
        Self::NotReady(reason)
    }
}

impl From<Internal> for GatewayError {
    fn from(reason: Internal) -> Self {
        Self::Internal(reason)
    }
}
