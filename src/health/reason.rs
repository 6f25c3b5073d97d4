//! Why a replica is degraded or not ready.

use iam_adapters::{IamError, Misconfiguration};
use serde::Serialize;
use strum::IntoStaticStr;

use super::Readiness;
use auth_gateway_core::KeyWarning;

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
    pub(crate) iam: Option<String>,
    /// The best readiness of a replica that has it.
    #[serde(skip)]
    pub(super) readiness: Readiness,
}

impl Reason {
    /// A reason that is not about one IAM.
    pub(crate) fn new(code: ReasonCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            iam: None,
            readiness: if code.is_of_start_or_stop() {
                Readiness::NotReady
            } else {
                Readiness::Degraded
            },
        }
    }

    /// The same reason, of one IAM.
    pub(crate) fn of_iam(self, name: &str) -> Self {
        let iam = Some(name.to_owned());
        Self { iam, ..self }
    }

    /// That the clock of this peer has this [`offset`](iam_adapters::clock::offset); `None`: the clocks agree.
    pub(crate) fn of_clock(peer: &str, offset: f64) -> Option<Self> {
        let seconds = offset.abs();
        let message = if offset > 0.0 {
            format!("the clock of this replica is {seconds:.0} s behind the clock of {peer}")
        } else {
            format!("the clock of this replica is {seconds:.0} s ahead of the clock of {peer}")
        };
        (seconds > CLOCK_TOLERANCE).then(|| Self::new(ReasonCode::ClockWrong, message))
    }
}

/// The stable name of a reason. `openapi.yaml` lists the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr)]
#[cfg_attr(test, derive(strum::VariantNames))]
#[serde(into = "&'static str")]
#[strum(serialize_all = "snake_case")]
pub enum ReasonCode {
    IamNotProbed,
    Unreachable,
    TimedOut,
    Failed,
    Throttled,
    Unreadable,
    /// The IAM cannot be used until a setting is changed. The name is that of the misconfiguration.
    #[strum(transparent)]
    Misconfigured(Misconfiguration),
    /// The source of the permissions fails, and the IAM does not.
    PermissionSource,
    /// Calls of an operation are not made, because too many failed.
    CircuitOpen,
    /// Access tokens are issued with stale data, as `stale_if_error` allows.
    ServingStale,
    /// The clock of this replica differs from that of an IAM or of Redis.
    ClockWrong,
    /// A folder of keys cannot be used.
    KeysUnreadable,
    /// A replica uses a key that another one does not have.
    KeysDiffer,
    /// A file that the settings name cannot be used as it is now.
    FilesUnreadable,
    /// The certificate of the public listener has expired, or is not valid yet.
    CertificateInvalid,
    /// The sealing key in use is overdue for rotation.
    SealingKeyOld,
    /// Revocations of other replicas from before the start are not known yet.
    RevocationsCatchingUp,
    RevocationsUnreachable,
    RevocationsRefused,
    /// The table of revocations is full: no session can begin.
    RevocationsFull,
    /// Logouts that failed at the IAM are not finished after a while.
    UnfinishedLogouts,
    Stopping,
}

impl ReasonCode {
    /// Whether every replica can have it for a short time, in which it is not ready.
    pub(super) const fn is_of_start_or_stop(self) -> bool {
        matches!(
            self,
            Self::IamNotProbed | Self::RevocationsCatchingUp | Self::Stopping
        )
    }

    /// The code of a fault of the IAM; `None` for a refused login, a fault of one session alone, and a call
    /// that the IAM did not receive.
    pub(crate) const fn of_fault(fault: &IamError) -> Option<Self> {
        Some(match fault {
            IamError::Unreachable(_) | IamError::Disconnected(_) => Self::Unreachable,
            IamError::TimedOut(_) => Self::TimedOut,
            IamError::Failed(_) => Self::Failed,
            IamError::Throttled { .. } => Self::Throttled,
            IamError::Unreadable(_) => Self::Unreadable,
            IamError::PermissionSource(_)
            | IamError::Misconfigured {
                what: Misconfiguration::PermissionSource,
                ..
            } => Self::PermissionSource,
            IamError::Misconfigured { what, .. } => Self::Misconfigured(*what),
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
