//! The errors of an adapter. Their texts are for logs and readiness, not for clients. They contain no
//! secret, no credential and no free text of the IAM.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, iter};

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// What was found, and the error of a library that caused it, if there is one.
#[derive(Debug, Clone)]
pub struct Detail {
    text: Cow<'static, str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Detail {
    /// This text, with its cause. The texts of the cause, also for `Debug`, must contain nothing of the IAM.
    pub fn caused_by(
        text: impl Into<Cow<'static, str>>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self {
            text: text.into(),
            source: Some(Arc::new(source)),
        }
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Detail {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            source: None,
        }
    }
}

/// Equal texts, also of the causes.
impl PartialEq for Detail {
    fn eq(&self, other: &Self) -> bool {
        let cause = |detail: &Self| detail.source.as_ref().map(ToString::to_string);
        self.text == other.text && cause(self) == cause(other)
    }
}

impl Eq for Detail {}

/// The alternate form, `{:#}`, has the cause.
impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.source {
            Some(cause) if f.alternate() => write!(f, ": {cause}"),
            _ => Ok(()),
        }
    }
}

/// Why a call to the IAM did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum IamError {
    /// The IAM refuses this user. The only variant that is not a fault.
    Refused(Refusal),
    /// No connection: refused, no such host, or not in time. The IAM has received nothing.
    Unreachable(Detail),
    /// The connection broke before the response was complete. The IAM may have received the request, and have
    /// failed because of it.
    #[strum(serialize = "unreachable")]
    Disconnected(Detail),
    /// No response within the deadline of the operation.
    TimedOut(Duration),
    /// The IAM reported its own failure (a 5xx).
    Failed(String),
    /// The IAM limits the rate of calls (a 429).
    Throttled {
        /// Its `Retry-After`, where it sent one in seconds.
        retry_after: Option<Duration>,
    },
    /// The adapter does not understand the response of the IAM.
    Unreadable(Detail),
    /// The adapter does not understand what the IAM states about one session. The IAM and other sessions
    /// work.
    #[strum(serialize = "unreadable")]
    UnreadableSession(Detail),
    /// The IAM refuses the gateway itself, or is not the configured IAM.
    Misconfigured {
        /// The cause.
        what: Misconfiguration,
        /// What was found, and which settings to check.
        detail: String,
    },
    /// The gateway's limit of concurrent calls is reached; the IAM was not called.
    Saturated,
    /// The circuit is open because too many recent calls failed; the IAM was not called.
    CircuitOpen,
    /// The permissions could not be had from their own source: one of the faults above, of that source.
    /// The IAM has reported the session as active before, except with [`Self::CircuitOpen`], which may
    /// have been known before the IAM was called.
    PermissionSource(Box<Self>),
    /// The IAM rejected a login, although logins have succeeded, and it is unknown whether it refuses the user: the
    /// fault. It counts as a refused login.
    PossibleRefusal(Box<Self>),
}

/// The alternate form, `{:#}`, has the chain of causes.
impl fmt::Display for IamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = match self {
            Self::PermissionSource(_) => "the permission source",
            _ => "the IAM",
        };
        if f.alternate() {
            self.about(server).fmt(f)
        } else {
            self.describe(server, f)
        }
    }
}

impl StdError for IamError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unreachable(detail)
            | Self::Disconnected(detail)
            | Self::Unreadable(detail)
            | Self::UnreadableSession(detail) => detail.source.as_deref().map(|cause| cause as _),
            Self::PermissionSource(fault) | Self::PossibleRefusal(fault) => fault.source(),
            _ => None,
        }
    }
}

impl IamError {
    /// The stable name of the variant in logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PossibleRefusal(fault) => fault.kind(),
            other => other.into(),
        }
    }

    /// The fault, of the IAM or of the source of the permissions.
    #[must_use]
    pub fn fault(&self) -> &Self {
        if let Self::PermissionSource(fault) | Self::PossibleRefusal(fault) = self {
            fault
        } else {
            self
        }
    }

    /// Whether the IAM did not respond, or reported its own failure. With any other response it is
    /// available, and a pause would change nothing.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Disconnected(_) | Self::TimedOut(_) | Self::Failed(_) => {
                true
            }
            Self::PossibleRefusal(fault) => fault.is_failure(),
            Self::Refused(_)
            | Self::Throttled { .. }
            | Self::Unreadable(_)
            | Self::UnreadableSession(_)
            | Self::Misconfigured { .. }
            | Self::Saturated
            | Self::CircuitOpen
            | Self::PermissionSource(_) => false,
        }
    }

    /// The same fault, of the source of permissions.
    #[must_use]
    pub fn of_permission_source(self) -> Self {
        Self::PermissionSource(Box::new(self))
    }

    /// The text about a server that may not be an IAM, with the chain of causes.
    #[must_use]
    pub fn about<'e>(&'e self, server: &'e str) -> impl fmt::Display + 'e {
        fmt::from_fn(move |f| {
            self.describe(server, f)?;
            iter::successors(self.source(), |cause| (*cause).source())
                .try_for_each(|cause| write!(f, ": {cause}"))
        })
    }

    /// The text about the server that was called.
    fn describe(&self, server: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{server} refused the login: {refusal}"),
            Self::Unreachable(detail) | Self::Disconnected(detail) => {
                write!(f, "{server} cannot be reached: {detail}")
            }
            Self::TimedOut(deadline) => write!(f, "{server} did not respond within {deadline:?}"),
            Self::Failed(detail) => write!(f, "{server} failed: {detail}"),
            Self::Throttled { .. } => write!(f, "{server} limits the rate of calls"),
            Self::Unreadable(detail) | Self::UnreadableSession(detail) => {
                write!(f, "the response of {server} cannot be read: {detail}")
            }
            Self::Misconfigured { what, detail } => {
                write!(
                    f,
                    "{server} does not accept this gateway: {what} ({detail})"
                )
            }
            Self::Saturated => write!(f, "too many concurrent calls to {server}"),
            Self::CircuitOpen => {
                write!(f, "circuit open: too many recent calls to {server} failed")
            }
            Self::PermissionSource(fault) | Self::PossibleRefusal(fault) => {
                fault.describe(server, f)
            }
        }
    }

    /// The fault, with more to check in its text.
    #[must_use]
    pub fn with_hint(mut self, hint: &str) -> Self {
        match &mut self {
            Self::Unreachable(detail) | Self::Disconnected(detail) | Self::Unreadable(detail) => {
                detail.text.to_mut().push_str(hint);
            }
            Self::Failed(detail) | Self::Misconfigured { detail, .. } => detail.push_str(hint),
            _ => {}
        }
        self
    }

    /// A [`IamError::Misconfigured`].
    pub fn misconfigured(what: Misconfiguration, detail: impl Into<String>) -> Self {
        Self::Misconfigured {
            what,
            detail: detail.into(),
        }
    }
}

/// Why the IAM refused a user. For the log only: clients get the same response for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Refusal {
    /// Unknown user, wrong password, or a locked account that the IAM does not distinguish from them.
    #[error("invalid credentials")]
    InvalidCredentials,
    /// The account is disabled.
    #[error("account disabled")]
    Disabled,
    /// The account is temporarily locked.
    #[error("account locked")]
    Locked,
    /// The user must first complete an action at the IAM, such as setting a new password.
    #[error("account incomplete")]
    Incomplete,
}

/// Why the gateway cannot use the IAM until a setting of either is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Misconfiguration {
    /// The IAM does not know the gateway's client.
    #[error("unknown client")]
    UnknownClient,
    /// The IAM does not accept the gateway's secret, key, assertion or certificate.
    #[error("wrong client credentials")]
    ClientSecret,
    /// The IAM has no such tenant (a realm, an organisation), or it is disabled.
    #[error("unknown or disabled tenant")]
    Tenant,
    /// The IAM does not allow the gateway to log users in with their password.
    #[error("login with a password is not allowed")]
    PasswordLogin,
    /// The issuer of the IAM is not the configured one.
    #[error("another issuer")]
    Issuer,
    /// Introspection reports an active session as inactive.
    #[error("introspection does not recognise active sessions")]
    Introspection,
    /// The session belongs to another client of the IAM, which alone may introspect it.
    #[error("session of another client")]
    ForeignClient,
    /// The TLS connection fails, or the IAM requires TLS.
    #[error("TLS")]
    Tls,
    /// The policy server that decides about permissions refuses the gateway.
    #[error("policy server")]
    PermissionSource,
    /// Any other reason for which the IAM refuses the gateway.
    #[error("refused")]
    Other,
}

impl Misconfiguration {
    /// Whether probes fail while it lasts. Otherwise only a login or an exchange shows that it has
    /// ended.
    #[must_use]
    pub const fn fails_probes(self) -> bool {
        match self {
            Self::Introspection | Self::PermissionSource => false,
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
}
