//! The metrics of logout tokens.

use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{IamLabels, iam_labels};
use crate::gateway::EndedByIam;
use crate::gateway::error::GatewayError;

/// The outcome of a logout token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogoutTokenOutcome {
    /// It ended one IAM session.
    SessionEnded,
    /// It ended all sessions of a subject.
    SubjectEnded,
    /// It was invalid.
    Invalid(InvalidLogoutToken),
    /// It was refused unread, because its sender had sent too many invalid ones.
    TurnedAway,
    /// It could not be verified.
    Fault,
}

impl LogoutTokenOutcome {
    /// The outcome of a token that the gateway received; `None` if the IAM sends no logout tokens.
    #[must_use]
    pub fn of(received: &Result<EndedByIam, GatewayError>) -> Option<Self> {
        match received.as_ref().map(|by_iam| &by_iam.ended) {
            Ok(Ended::Session(_)) => Some(Self::SessionEnded),
            Ok(Ended::AllOf(_)) => Some(Self::SubjectEnded),
            Err(GatewayError::InvalidLogoutToken(why)) => Some(Self::Invalid(*why)),
            Err(GatewayError::NoLogoutTokens) => None,
            Err(_) => Some(Self::Fault),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::SessionEnded => "session_ended",
            Self::SubjectEnded => "subject_ended",
            Self::Invalid(why) => why.kind(),
            Self::TurnedAway => "turned_away",
            Self::Fault => "fault",
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let others = [
            Self::SessionEnded,
            Self::SubjectEnded,
            Self::TurnedAway,
            Self::Fault,
        ];
        let invalid = InvalidLogoutToken::ALL.into_iter().map(Self::Invalid);
        invalid.chain(others)
    }
}

pub(super) struct LogoutTokenCounters(Family<IamLabels, Counter>);

impl LogoutTokenCounters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let counters = Self(Family::default());
        let help = "Logout tokens received";
        registry.register("logout_tokens", help, counters.0.clone());
        counters
    }

    pub(super) fn create(&self, iam: Option<&str>) {
        for outcome in LogoutTokenOutcome::all() {
            let _ = self.of(outcome, iam);
        }
    }

    pub(super) fn count(&self, outcome: LogoutTokenOutcome, iam: Option<&str>) {
        self.of(outcome, iam).inc();
    }

    fn of(&self, outcome: LogoutTokenOutcome, iam: Option<&str>) -> Counter {
        let labels = iam_labels(("outcome", outcome.name()), iam);
        self.0.get_or_create_owned(&labels)
    }
}
