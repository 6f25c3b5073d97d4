//! Why a replica is degraded or not ready.

use std::fmt;

use iam_adapters::{IamError, Misconfiguration};
use serde::{Serialize, Serializer};

use crate::gateway::keys::KeyWarning;

/// By how many seconds two clocks may differ. Verifiers of tokens often allow for as much.
const CLOCK_TOLERANCE: f64 = 30.0;

/// Why a replica is degraded or not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The stable name.
    pub code: ReasonCode,
    /// A description for operators.
    pub message: String,
    /// The name of the IAM that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iam: Option<String>,
}

impl Reason {
    /// A reason that is not about one IAM.
    #[must_use]
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            iam: None,
        }
    }

    /// That the clock of this peer has this [`offset`](iam_adapters::clock::offset); `None`: the clocks agree.
    #[must_use]
    pub fn of_clock(peer: &str, offset: f64) -> Option<Self> {
        let seconds = offset.abs();
        let message = if offset > 0.0 {
            format!("the clock of this replica is {seconds:.0} s behind the clock of {peer}")
        } else {
            format!("the clock of this replica is {seconds:.0} s ahead of the clock of {peer}")
        };
        (seconds > CLOCK_TOLERANCE).then(|| Self::new(ReasonCode::ClockWrong, message))
    }
}

/// Defines the codes once, so that none is missing in [`ReasonCode::ALL`].
macro_rules! reason_codes {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// The stable name of a reason. `openapi.yaml` lists the same.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ReasonCode {
            $($(#[$doc])+ $variant,)+
        }

        impl ReasonCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The code as text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

impl ReasonCode {
    /// Whether every replica can have it for a short time.
    pub(super) const fn is_of_start_or_stop(self) -> bool {
        matches!(
            self,
            Self::IamNotProbed | Self::RevocationsCatchingUp | Self::Stopping
        )
    }
}

reason_codes! {
    /// The first probe of the IAM has not ended.
    IamNotProbed = "iam_not_probed",
    /// [`IamError::Unreachable`].
    Unreachable = "unreachable",
    /// [`IamError::TimedOut`].
    TimedOut = "timed_out",
    /// [`IamError::Failed`].
    Failed = "failed",
    /// [`IamError::Throttled`].
    Throttled = "throttled",
    /// [`IamError::Unreadable`].
    Unreadable = "unreadable",
    /// [`Misconfiguration::UnknownClient`].
    UnknownClient = "unknown_client",
    /// [`Misconfiguration::ClientSecret`].
    ClientSecret = "client_secret",
    /// [`Misconfiguration::Tenant`].
    Tenant = "tenant",
    /// [`Misconfiguration::PasswordLogin`].
    PasswordLogin = "password_login",
    /// [`Misconfiguration::Issuer`].
    Issuer = "issuer",
    /// [`Misconfiguration::Introspection`].
    Introspection = "introspection",
    /// [`Misconfiguration::ForeignClient`].
    ForeignClient = "foreign_client",
    /// [`Misconfiguration::Tls`].
    Tls = "tls",
    /// [`Misconfiguration::Other`].
    Other = "other",
    /// The source of the permissions fails, and the IAM does not.
    PermissionSource = "permission_source",
    /// Calls of an operation are not made, because too many failed.
    CircuitOpen = "circuit_open",
    /// Access tokens are issued with stale data, as `stale_if_error` allows.
    ServingStale = "serving_stale",
    /// The clock of this replica differs from that of an IAM or of Redis.
    ClockWrong = "clock_wrong",
    /// A folder of keys cannot be used.
    KeysUnreadable = "keys_unreadable",
    /// A replica uses a key that another one does not have.
    KeysDiffer = "keys_differ",
    /// A file that the settings name cannot be used as it is now.
    FilesUnreadable = "files_unreadable",
    /// The certificate of the public listener has expired, or is not valid yet.
    CertificateInvalid = "certificate_invalid",
    /// The sealing key in use is overdue for rotation.
    SealingKeyOld = "sealing_key_old",
    /// Revocations of other replicas from before the start are not known yet.
    RevocationsCatchingUp = "revocations_catching_up",
    /// Redis does not respond.
    RevocationsUnreachable = "revocations_unreachable",
    /// Redis refuses to store revocations.
    RevocationsRefused = "revocations_refused",
    /// There are so many live revocations that no session can begin.
    RevocationsFull = "revocations_full",
    /// Logouts that failed at the IAM are not finished after a while.
    UnfinishedLogouts = "unfinished_logouts",
    /// The replica is about to stop.
    Stopping = "stopping",
}

impl ReasonCode {
    /// The code of a fault of the IAM; `None` for a refused login, a fault of one session alone, and a call
    /// that the IAM did not receive.
    #[must_use]
    pub const fn of_fault(fault: &IamError) -> Option<Self> {
        Some(match fault {
            IamError::Unreachable(_) => Self::Unreachable,
            IamError::TimedOut(_) => Self::TimedOut,
            IamError::Failed(_) => Self::Failed,
            IamError::Throttled { .. } => Self::Throttled,
            IamError::Unreadable(_) => Self::Unreadable,
            IamError::Misconfigured { what, .. } => match what {
                Misconfiguration::UnknownClient => Self::UnknownClient,
                Misconfiguration::ClientSecret => Self::ClientSecret,
                Misconfiguration::Tenant => Self::Tenant,
                Misconfiguration::PasswordLogin => Self::PasswordLogin,
                Misconfiguration::Issuer => Self::Issuer,
                Misconfiguration::Introspection => Self::Introspection,
                Misconfiguration::ForeignClient => Self::ForeignClient,
                Misconfiguration::Tls => Self::Tls,
                Misconfiguration::PermissionSource => Self::PermissionSource,
                Misconfiguration::Other => Self::Other,
            },
            IamError::PermissionSource(_) => Self::PermissionSource,
            IamError::PossibleRefusal(fault) => return Self::of_fault(fault),
            IamError::Refused(_)
            | IamError::UnreadableSession(_)
            | IamError::Saturated
            | IamError::CircuitOpen => return None,
        })
    }
}

impl From<KeyWarning> for Reason {
    fn from(warning: KeyWarning) -> Self {
        let code = match &warning {
            KeyWarning::Unreadable { .. } => ReasonCode::KeysUnreadable,
            KeyWarning::SealingKeyOld { .. } => ReasonCode::SealingKeyOld,
            KeyWarning::Missing { .. } => ReasonCode::KeysDiffer,
        };
        Self::new(code, warning.to_string())
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ReasonCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
