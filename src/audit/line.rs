//! The lines of the audit log, and the events that have one. The names in the lines are an interface: a
//! member or a value that is removed or changes its meaning needs another [`SCHEMA`].

#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;

use iam_adapters::logout_token::Ended;
use iam_adapters::name::Name as _;
use iam_adapters::{ClientAddress, Moment};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::telemetry::json_lines::write_escaped;
use auth_gateway_core::error::{GatewayError, NotReady};
use auth_gateway_core::event::{Event, LoginEnd};
use auth_gateway_core::identifiers::{Identifier, IdentifierKey};
use auth_gateway_core::request::RequestContext;
use auth_gateway_core::results::{LoggedOut, UpstreamLogoutOutcome};
use auth_gateway_core::revoked_sessions::{NotRevocable, RevokedSessions};
use auth_gateway_core::session_id::SessionId;

/// The version of the lines.
const SCHEMA: u32 = 1;

/// Numbers of refusals, by event and reason.
pub(super) type RefusalCounts = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// How lines show accounts, sessions and clients.
#[derive(Debug)]
pub(super) struct Identifiers {
    pub(super) key: Arc<IdentifierKey>,
    /// Whether addresses of clients are in clear too.
    pub(super) with_client_addresses: bool,
    /// Whether e-mail addresses are in clear too.
    pub(super) with_email_addresses: bool,
}

/// The client of a request, in its lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Client {
    /// The identifier of its network: an IPv4 address, or an IPv6 /64.
    pub(super) network: Option<String>,
    /// Its address, if the settings say so.
    address: Option<String>,
}

impl Identifiers {
    fn session(&self, id: SessionId) -> String {
        self.key.session(&id.to_string()).to_string()
    }

    fn network(&self, address: ClientAddress) -> String {
        self.key.network(address.network()).to_string()
    }

    pub(super) fn client(&self, address: Option<ClientAddress>) -> Client {
        let clear = address.filter(|_| self.with_client_addresses);
        Client {
            network: address.map(|address| self.network(address)),
            address: clear.map(|address| address.to_string()),
        }
    }
}

/// One line, before it has a time.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) event: &'static str,
    pub(super) client: Client,
    pub(super) reason: Option<&'static str>,
    pub(super) sampling: LineSampling,
    /// The members after the event, each with a comma before it.
    members: String,
}

/// Whether a line is written. A client without credentials can cause any number of refusals that no
/// login limit bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineSampling {
    /// Each.
    Each,
    /// Of refusals, and of failures of the gateway itself, the first of its client, event, reason and interval. The others
    /// are summed.
    First,
    /// Refusals are summed: anyone can cause them, and they change nothing.
    Sum,
}

impl Line {
    fn new(event: &'static str) -> Self {
        Self {
            event,
            client: Client::default(),
            reason: None,
            sampling: LineSampling::Each,
            members: String::new(),
        }
    }

    /// The line of an event; `None`: it has none.
    pub(super) fn of(event: &Event<'_>, ids: &Identifiers) -> Option<Self> {
        Some(match *event {
            Event::Started { version } => Self::new("gateway_started").with("version", version),
            Event::Stopped => Self::new("gateway_stopped"),
            Event::Login {
                request,
                account,
                iam,
                reaches_iam,
                end,
            } => Self::of_login(request, account, iam, reaches_iam, end, ids),
            Event::SlowRate {
                email,
                is_known_network,
            } => {
                let network = if is_known_network { "known" } else { "unknown" };
                let line = Self::new("slow_rate").with_account(email, ids.key.account(email), ids);
                line.with("network", network)
            }
            Event::Logout {
                request,
                session,
                result,
            } => {
                let decision = result.map_or_else(Decision::unknown, Decision::of);
                let line = Self::decided("logout", decision).requested(request, ids);
                line.with_ended_session(session, ids)
            }
            Event::UpstreamLogout {
                iam,
                session_id,
                outcome,
            } => Self::decided("iam_logout", Decision::of_logout(outcome))
                .with("iam", iam)
                .with("session", ids.session(session_id)),
            Event::LogoutToken {
                request,
                iam,
                result,
            } => {
                let line = Self::decided("logout_token", Decision::of(result));
                let line = line.requested(request, ids).sampled(LineSampling::First);
                let Ok(by_iam) = result else {
                    return Some(line);
                };
                line.with_some("iam", iam.map(|iam| &**iam))
                    .with("ended", selected(&by_iam.ended))
                    .with_some("subject", by_iam.sub.as_deref())
            }
            Event::SessionRevocation {
                request,
                sessions,
                begun_until,
                result,
            } => Self::decided("session_revocation", Decision::of_revocation(result))
                .requested(request, ids)
                .with_sessions(sessions, ids)
                .with_some("begun_until", begun_until),
            Event::LoginLimitsReset {
                request,
                email,
                network,
                is_done,
            } => {
                let done = is_done.then_some(Decision::SUCCESS);
                Self::decided("login_limits_reset", done.unwrap_or(Decision::NOT_AUDITED))
                    .requested(request, ids)
                    .with_account(email, ids.key.account(email), ids)
                    .with_some("network", network.map(|address| ids.network(address)))
            }
            Event::OperatorRefused {
                request,
                path,
                reason,
            } => Self::decided("operator_refused", Decision::refused(reason))
                .requested(request, ids)
                .with("path", path)
                .sampled(LineSampling::First),
            Event::Keys {
                result: Ok((purpose, kids)),
            } => Self::decided("keys", Decision::SUCCESS)
                .with("purpose", purpose)
                .with("kids", kids),
            Event::Files { result: Ok(()) } => Self::decided("files", Decision::SUCCESS),
            Event::Keys {
                result: Err(detail),
            } => Self::unreadable("keys", detail),
            Event::Files {
                result: Err(detail),
            } => Self::unreadable("files", detail),
            Event::Exchange { .. }
            | Event::UntrackedLogin
            | Event::Iam { .. }
            | Event::Clock { .. }
            | Event::Replication { .. }
            | Event::Entries { .. }
            | Event::SharedLookUp { .. } => return None,
        })
    }

    fn of_login(
        request: &RequestContext,
        account: Option<(&str, Identifier)>,
        iam: Option<&Arc<str>>,
        reaches_iam: bool,
        end: LoginEnd<'_>,
        ids: &Identifiers,
    ) -> Self {
        let (decision, session) = match end {
            LoginEnd::Decided(Err(GatewayError::Refused(_))) if iam.is_none() => {
                (Decision::refused("unknown_domain"), None)
            }
            LoginEnd::Decided(result) => (Decision::of(result), result.ok()),
            LoginEnd::Withdrawn(session) => (Decision::NOT_AUDITED, Some(session)),
            LoginEnd::Unknown => (Decision::unknown(), None),
        };
        // Without an end it may not have been called.
        let iam = iam.filter(|_| !matches!(end, LoginEnd::Unknown));
        let line = Self::decided("login", decision).requested(request, ids);
        let line = match account {
            Some((email, account)) => line.with_account(email, account, ids),
            None => line,
        };
        let line = line
            .with_some("iam", iam.map(|iam| &**iam))
            .with_some("subject", session.map(|session| &*session.sub))
            .with_some("session", session.map(|new| ids.session(new.session_id)));
        // Login limits bound what an IAM is asked.
        let is_unlimited = match end {
            LoginEnd::Decided(Err(GatewayError::Refused(_))) => !reaches_iam,
            LoginEnd::Decided(Err(error)) => {
                matches!(
                    error,
                    GatewayError::TooManyLogins { .. } | GatewayError::NotReady(_)
                )
            }
            LoginEnd::Decided(Ok(_)) | LoginEnd::Withdrawn(_) | LoginEnd::Unknown => false,
        };
        if is_unlimited {
            line.sampled(LineSampling::First)
        } else {
            line
        }
    }

    /// The refusals of one client without a line of their own, in one interval. The client is empty for
    /// the sum of the clients that have no sum of their own.
    pub(super) fn refusals(client: Client, count: u64, refused: &RefusalCounts) -> Self {
        let line = Self::new("refusals").of_client(client);
        line.with("count", count).with("refused", json!(refused))
    }

    /// Lines before this one were lost.
    pub(super) fn lines_lost(count: u64) -> Self {
        Self::new("lines_lost").with("count", count)
    }

    /// A file or a folder cannot be used.
    fn unreadable(event: &'static str, detail: &str) -> Self {
        Self::decided(event, Decision::UNREADABLE).with("detail", detail)
    }

    fn decided(event: &'static str, decision: Decision) -> Self {
        let line = Self::new(event).with("outcome", decision.outcome);
        Self {
            reason: decision.reason,
            ..line
                .with_some("reason", decision.reason)
                .with_some("limit", decision.limit)
        }
    }

    /// The request id is that of the response and of the ordinary log.
    fn requested(self, request: &RequestContext, ids: &Identifiers) -> Self {
        let line = self.with("request_id", request.id.as_str());
        line.of_client(ids.client(request.client))
    }

    fn of_client(self, client: Client) -> Self {
        let line = self
            .with_some("client", client.network.as_deref())
            .with_some("client_address", client.address.as_deref());
        Self { client, ..line }
    }

    fn with_account(self, email: &str, account: Identifier, ids: &Identifiers) -> Self {
        let clear = ids.with_email_addresses.then_some(email);
        let line = self.with("account", account.to_string());
        line.with_some("email", clear)
    }

    fn with_ended_session(self, session: Option<&LoggedOut>, ids: &Identifiers) -> Self {
        match session {
            Some(session) => self
                .with("iam", &*session.iam)
                .with("subject", &*session.sub)
                .with("session", ids.session(session.session_id)),
            None => self.sampled(LineSampling::Sum),
        }
    }

    fn with_sessions(self, sessions: &RevokedSessions, ids: &Identifiers) -> Self {
        let line = self.with("selected_by", sessions.selector());
        match sessions {
            RevokedSessions::One(id) => line.with("session", ids.session(*id)),
            RevokedSessions::OfSubject { subject, .. } => line.with("subject", subject.as_str()),
            RevokedSessions::OfIam { iam, .. } => line.with_some("iam", iam.as_deref()),
        }
    }

    fn sampled(self, sampling: LineSampling) -> Self {
        Self { sampling, ..self }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        // A string takes everything.
        let _ = write!(self.members, r#","{name}":{}"#, value.into());
        self
    }

    fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The JSON, with a line feed. The time is in UTC with microseconds (RFC 3339).
    #[must_use]
    pub(super) fn to_json(&self, now: Moment) -> Vec<u8> {
        let since = SignedDuration::try_from(now.unix).unwrap_or(SignedDuration::MAX);
        let time = Timestamp::from_duration(since).unwrap_or(Timestamp::MAX);
        let (event, members) = (self.event, &self.members);
        let json = format!(
            "{{\"schema\":{SCHEMA},\"time\":\"{time:.6}\",\"event\":\"{event}\"{members}}}\n"
        );
        let mut line = String::with_capacity(json.len());
        let _ = write_escaped(&json, &mut line);
        line.into_bytes()
    }
}

/// What a logout token ended.
const fn selected(ended: &Ended) -> &'static str {
    match ended {
        Ended::Session(_) => "session",
        Ended::AllOf(_) => "subject",
    }
}

/// The gateway has a defect.
const INTERNAL_ERROR: &str = "internal_error";

/// The outcome, and why it is not a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    outcome: &'static str,
    pub(super) reason: Option<&'static str>,
    /// The login limit, if that is the reason.
    limit: Option<&'static str>,
}

impl Decision {
    const SUCCESS: Self = Self {
        outcome: "success",
        reason: None,
        limit: None,
    };
    /// The line of the operation could not be written, so it was refused or undone.
    pub(super) const NOT_AUDITED: Self = Self::failed("audit_log_unwritable");
    pub(super) const UNREADABLE: Self = Self::failed("unreadable");

    /// The gateway or the IAM decided against it, for this reason.
    pub(super) const fn refused(reason: &'static str) -> Self {
        Self::because("refused", reason)
    }

    /// Nothing was decided, because something failed.
    const fn failed(reason: &'static str) -> Self {
        Self::because("failed", reason)
    }

    const fn because(outcome: &'static str, reason: &'static str) -> Self {
        Self {
            outcome,
            reason: Some(reason),
            limit: None,
        }
    }

    fn of<T>(result: Result<T, &GatewayError>) -> Self {
        result.err().map_or(Self::SUCCESS, Self::of_error)
    }

    /// The outcome of an operation that is dropped before its end.
    pub(super) fn unknown() -> Self {
        if thread::panicking() {
            Self::failed(INTERNAL_ERROR)
        } else {
            Self::because("unknown", "client_disconnected")
        }
    }

    pub(super) fn of_error(error: &GatewayError) -> Self {
        match error {
            GatewayError::Refused(refusal) => Self::refused(refusal.name()),
            GatewayError::InvalidSession(why) => Self::refused(why.name()),
            GatewayError::NothingGranted => Self::refused("nothing_granted"),
            GatewayError::InvalidLogoutToken(why) => Self::refused(why.name()),
            GatewayError::TooManyLogoutTokens { .. } => Self::refused("too_many_invalid"),
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
            GatewayError::Internal(_) => Self::failed(INTERNAL_ERROR),
        }
    }

    /// The outcome of a logout that had failed at the IAM.
    pub(super) fn of_logout(outcome: UpstreamLogoutOutcome) -> Self {
        match outcome {
            UpstreamLogoutOutcome::Finished => Self::SUCCESS,
            UpstreamLogoutOutcome::Expired
            | UpstreamLogoutOutcome::Rejected
            | UpstreamLogoutOutcome::Dropped => Self::failed(outcome.name()),
        }
    }

    fn of_revocation(result: Result<(), NotRevocable>) -> Self {
        let refused = result.err().map(|why| Self::refused(why.name()));
        refused.unwrap_or(Self::SUCCESS)
    }
}
