//! The events and their lines. The names in the lines are an interface: a member or a value that is
//! removed or changes its meaning needs another [`SCHEMA`].

#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;

use iam_adapters::Moment;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::identifiers::{AccountId, ClientId};
use super::refusals::Refusal;
use crate::gateway::error::{GatewayError, InvalidSession, NotReady};
use crate::gateway::upstream_logouts::Outcome as LogoutOutcome;
use crate::telemetry::json_lines::write_escaped;

/// The version of the lines.
pub const SCHEMA: u32 = 1;

/// Numbers of refusals, by event and reason.
pub type RefusalCounts = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct Line<'e> {
    schema: u32,
    /// RFC 3339, in UTC with microseconds.
    time: String,
    #[serde(flatten)]
    event: &'e Event,
}

impl<'e> Line<'e> {
    /// The line of an event at this time.
    #[must_use]
    pub(super) fn new(event: &'e Event, now: Moment) -> Self {
        let since = SignedDuration::try_from(now.unix).unwrap_or(SignedDuration::MAX);
        let time = Timestamp::from_duration(since).unwrap_or(Timestamp::MAX);
        Self {
            schema: SCHEMA,
            time: format!("{time:.6}"),
            event,
        }
    }

    /// The JSON, with a line feed.
    #[must_use]
    pub(super) fn to_json(&self) -> Vec<u8> {
        // Strings, numbers and string keys can be serialized.
        let json = serde_json::to_string(self).unwrap_or_default();
        let mut line = String::with_capacity(json.len() + 1);
        // A string takes everything.
        let _ = write_escaped(&json, &mut line);
        line.push('\n');
        line.into_bytes()
    }
}

/// What is in the line beside the version and the time.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The gateway listens.
    GatewayStarted {
        /// Its version.
        version: &'static str,
    },
    /// The gateway serves no more requests.
    GatewayStopped,
    /// A login.
    Login {
        /// Whether a session began.
        #[serde(flatten)]
        decision: Decision,
        /// The request.
        #[serde(flatten)]
        request: Request,
        /// The account; `None` if the limit of the address refused the request.
        #[serde(flatten)]
        account: Option<AccountId>,
        /// The IAM of the account's domain.
        #[serde(skip_serializing_if = "Option::is_none")]
        iam: Option<String>,
        /// `sub` of the access tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
        /// The new session.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// The slow rate begins for an account.
    SlowRate {
        /// The account.
        #[serde(flatten)]
        account: AccountId,
        /// `known` or `unknown`.
        network: &'static str,
    },
    /// A logout.
    Logout {
        /// Whether the session has ended at the IAM too.
        #[serde(flatten)]
        decision: Decision,
        /// The request.
        #[serde(flatten)]
        request: Request,
        /// The session; `None` if the request named none. If it is there, the gateway refuses it.
        #[serde(flatten)]
        session: Option<EndedSession>,
    },
    /// The gateway no longer repeats a logout that failed at the IAM.
    IamLogout {
        /// Whether the session has ended at the IAM.
        #[serde(flatten)]
        decision: Decision,
        /// The IAM.
        iam: String,
        /// The session.
        session: String,
    },
    /// A logout token.
    LogoutToken {
        /// Whether it was accepted.
        #[serde(flatten)]
        decision: Decision,
        /// The request.
        #[serde(flatten)]
        request: Request,
        /// The IAM, if it was accepted.
        #[serde(skip_serializing_if = "Option::is_none")]
        iam: Option<String>,
        /// What ended: `session` or `subject`.
        #[serde(skip_serializing_if = "Option::is_none")]
        ended: Option<&'static str>,
        /// The subject whose sessions ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
    },
    /// An operator revokes sessions.
    SessionRevocation {
        /// Whether they are revoked.
        #[serde(flatten)]
        decision: Decision,
        /// The request.
        #[serde(flatten)]
        request: Request,
        /// Which sessions.
        #[serde(flatten)]
        sessions: RevokedSelection,
    },
    /// An operator resets the login limits of an account.
    LoginLimitsReset {
        /// Whether they are reset.
        #[serde(flatten)]
        decision: Decision,
        /// The request.
        #[serde(flatten)]
        request: Request,
        /// The account.
        #[serde(flatten)]
        account: AccountId,
        /// The known network that is reset too, as `client` in the lines of logins.
        #[serde(skip_serializing_if = "Option::is_none")]
        network: Option<String>,
    },
    /// A call for operators without their token.
    OperatorRefused {
        /// Why.
        #[serde(flatten)]
        decision: Decision,
        /// The request.
        #[serde(flatten)]
        request: Request,
        /// The path.
        path: String,
    },
    /// The refusals of one client without a line of their own, in the last interval.
    Refusals {
        /// The client; empty for the sum of the clients that have no sum of their own.
        #[serde(flatten)]
        client: ClientId,
        /// Their number.
        count: u64,
        /// Their numbers by event and reason.
        refused: RefusalCounts,
    },
    /// The keys in use, at the start and after a change.
    Keys {
        /// Whether the keys in the folder are in use.
        #[serde(flatten)]
        decision: Decision,
        /// `signing` or `sealing`.
        #[serde(skip_serializing_if = "Option::is_none")]
        purpose: Option<&'static str>,
        /// Their ids, in the order of first use.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        kids: Vec<String>,
        /// What is wrong with them.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The files that the settings name were read again.
    Files {
        /// Whether their contents are in use.
        #[serde(flatten)]
        decision: Decision,
        /// What is wrong with them.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Lines before this one were lost.
    LinesLost {
        /// Their number.
        count: u64,
    },
}

impl Event {
    /// The refusal, if no login limit bounds how many of them a client can cause.
    pub(super) fn refusal(&self) -> Option<Refusal<'_>> {
        let (event, decision, request) = match self {
            // Those that the IAM decides are bounded.
            Self::Login {
                decision,
                request,
                iam,
                ..
            } if decision.outcome == Outcome::Refused
                && (iam.is_none() || decision.limit.is_some()) =>
            {
                ("login", decision, request)
            }
            Self::Logout {
                decision,
                request,
                session: None,
            } => ("logout", decision, request),
            Self::LogoutToken {
                decision, request, ..
            } => ("logout_token", decision, request),
            Self::OperatorRefused {
                decision, request, ..
            } => ("operator_refused", decision, request),
            Self::GatewayStarted { .. }
            | Self::GatewayStopped
            | Self::Login { .. }
            | Self::SlowRate { .. }
            | Self::Logout { .. }
            | Self::IamLogout { .. }
            | Self::SessionRevocation { .. }
            | Self::LoginLimitsReset { .. }
            | Self::Refusals { .. }
            | Self::Keys { .. }
            | Self::Files { .. }
            | Self::LinesLost { .. } => return None,
        };
        Some(Refusal {
            client: &request.client,
            event,
            reason: decision.reason?,
            // Anyone can send a pair that is not that of a session, and it changes nothing.
            first_has_line: event != "logout",
        })
    }
}

/// The request that caused a line.
#[derive(Debug, Clone, Serialize)]
pub struct Request {
    /// As in the response and in the ordinary log.
    pub request_id: String,
    /// The client.
    #[serde(flatten)]
    pub client: ClientId,
}

/// A session that a client has ended.
#[derive(Debug, Clone, Serialize)]
pub struct EndedSession {
    /// Its IAM.
    pub iam: String,
    /// `sub` of its access tokens.
    pub subject: String,
    /// The session.
    pub session: String,
}

/// The sessions that an operator revokes.
#[derive(Debug, Clone, Serialize)]
pub struct RevokedSelection {
    /// The member of the request that selects them: `session_id`, `subject`, `iam` or `all`.
    pub selected_by: &'static str,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The IAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iam: Option<String>,
    /// Only sessions whose login began then or before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_until: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// It was done.
    Success,
    /// The gateway or the IAM decided against it.
    Refused,
    /// Nothing was decided, because something failed.
    Failed,
    /// It began, and its end is not known.
    Unknown,
}

/// The outcome, and why it is not a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Decision {
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The login limit, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
}

impl Decision {
    /// It was done.
    pub const SUCCESS: Self = Self {
        outcome: Outcome::Success,
        reason: None,
        limit: None,
    };
    /// No IAM allows logins with an address of this domain.
    pub const UNKNOWN_DOMAIN: Self = Self::refused("unknown_domain");
    /// The client did not wait for the response.
    pub const CLIENT_DISCONNECTED: Self = Self::because(Outcome::Unknown, "client_disconnected");
    /// The gateway has a defect.
    pub const INTERNAL_ERROR: Self = Self::failed("internal_error");
    /// The line of the operation could not be written, so it was refused or undone.
    pub const NOT_AUDITED: Self = Self::failed("audit_log_unwritable");
    /// A file or a folder cannot be used.
    pub const UNREADABLE: Self = Self::failed("unreadable");

    /// It was decided against, for this reason.
    #[must_use]
    pub const fn refused(reason: &'static str) -> Self {
        Self::because(Outcome::Refused, reason)
    }

    const fn failed(reason: &'static str) -> Self {
        Self::because(Outcome::Failed, reason)
    }

    const fn because(outcome: Outcome, reason: &'static str) -> Self {
        Self {
            outcome,
            reason: Some(reason),
            limit: None,
        }
    }

    /// The outcome of an operation of the gateway.
    #[must_use]
    pub fn of<T>(result: &Result<T, GatewayError>) -> Self {
        result.as_ref().err().map_or(Self::SUCCESS, Self::of_error)
    }

    /// The outcome of an operation that failed.
    #[must_use]
    pub fn of_error(error: &GatewayError) -> Self {
        match error {
            GatewayError::Refused(refusal) => Self::refused(refusal.kind()),
            GatewayError::InvalidSession(why) => Self::refused(match why {
                InvalidSession::Malformed => "malformed",
                InvalidSession::UnknownKey => "unknown_key",
                InvalidSession::Tampered => "tampered",
                InvalidSession::Mismatch => "mismatch",
                InvalidSession::Foreign => "foreign",
                InvalidSession::Expired => "expired",
                InvalidSession::Revoked => "revoked",
                InvalidSession::Ended => "ended",
            }),
            GatewayError::NothingGranted => Self::refused("nothing_granted"),
            GatewayError::InvalidLogoutToken(why) => Self::refused(why.kind()),
            GatewayError::NoLogoutTokens => Self::refused("no_logout_tokens"),
            GatewayError::Unavailable(fault)
            | GatewayError::TooSlow(fault)
            | GatewayError::Broken(fault)
            | GatewayError::Throttled { fault, .. }
            | GatewayError::Full(fault) => Self::failed(fault.kind()),
            GatewayError::TooManyLogins { limit, .. } => Self {
                limit: Some(limit.name()),
                ..Self::refused("rate_limited")
            },
            GatewayError::NotReady(NotReady::CatchingUp) => Self::failed("revocations_catching_up"),
            GatewayError::NotReady(NotReady::TooManyRevocations) => {
                Self::failed("revocations_full")
            }
            GatewayError::Internal(_) => Self::INTERNAL_ERROR,
        }
    }

    /// The outcome of a logout that had failed at the IAM.
    #[must_use]
    pub const fn of_logout(outcome: LogoutOutcome) -> Self {
        match outcome {
            LogoutOutcome::Finished => Self::SUCCESS,
            LogoutOutcome::Expired | LogoutOutcome::Rejected | LogoutOutcome::Dropped => {
                Self::failed(outcome.name())
            }
        }
    }
}
