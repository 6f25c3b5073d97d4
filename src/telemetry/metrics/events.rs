//! Counts the events of a gateway.

use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::name::Name as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use strum::{IntoStaticStr, VariantArray};

use super::iam::IamMetrics;
use super::{IamLabels, Metrics, ReplicaMetrics};
use auth_gateway_core::error::{GatewayError, Limit};
use auth_gateway_core::event::{Event, LoginEnd, Subscriber};
use auth_gateway_core::results::EndedByIam;

/// Counts the events of one gateway. Events that are attributed to no IAM have an empty name of the IAM.
#[derive(Debug)]
pub struct EventMetrics {
    iams: Box<[IamMetrics]>,
    throttled: Family<IamLabels<2>, Counter>,
    untracked: Counter,
    logout_tokens: Family<IamLabels<2>, Counter>,
    replicas: ReplicaMetrics,
}

impl Metrics {
    /// Counts the events of a gateway with these IAMs.
    #[must_use]
    pub fn of_gateway(&self, iams: &[&str]) -> EventMetrics {
        let metrics = EventMetrics {
            iams: iams.iter().map(|iam| self.iam.of(iam)).collect(),
            throttled: self.throttled.clone(),
            untracked: self.untracked.clone(),
            logout_tokens: self.logout_tokens.clone(),
            replicas: self.replicas.clone(),
        };
        let none = (iams.len() > 1).then_some(None);
        for iam in iams.iter().copied().map(Some).chain(none) {
            for limit in Limit::VARIANTS {
                let _ = metrics.throttled(*limit, iam);
            }
            let invalid = InvalidLogoutToken::VARIANTS.iter().map(<&str>::from);
            let others = LogoutTokenOutcome::VARIANTS.iter().map(<&str>::from);
            for outcome in invalid.chain(others) {
                let _ = metrics.logout_tokens(outcome, iam);
            }
        }
        metrics
    }
}

impl EventMetrics {
    fn iam(&self, name: &str) -> Option<&IamMetrics> {
        self.iams.iter().find(|iam| *iam.name == *name)
    }

    fn throttled(&self, limit: Limit, iam: Option<&str>) -> Counter {
        let labels = self.labels(("limit", limit.name()), iam);
        self.throttled.get_or_create_owned(&labels)
    }

    fn logout_tokens(&self, outcome: &str, iam: Option<&str>) -> Counter {
        let labels = self.labels(("outcome", outcome), iam);
        self.logout_tokens.get_or_create_owned(&labels)
    }

    /// An event without an IAM is attributed to the only one.
    fn labels(&self, (name, value): (&'static str, &str), iam: Option<&str>) -> IamLabels<2> {
        let only = || match &*self.iams {
            [only] => Some(&*only.name),
            _ => None,
        };
        let iam = iam.or_else(only).unwrap_or_default();
        [(name, value.to_owned()), ("iam", iam.to_owned())]
    }
}

impl Subscriber for EventMetrics {
    fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Exchange {
                iam: Some(iam),
                result: Ok(source),
                ..
            } => {
                if let Some(iam) = self.iam(iam) {
                    iam.exchanged(source);
                }
            }
            Event::Login {
                iam,
                end: LoginEnd::Decided(Err(GatewayError::TooManyLogins { limit, .. })),
                ..
            } => {
                let iam = iam.map(|iam| &**iam);
                self.throttled(*limit, iam).inc();
            }
            Event::UntrackedLogin => {
                self.untracked.inc();
            }
            Event::UpstreamLogout { iam, outcome, .. } => {
                if let Some(iam) = self.iam(iam) {
                    iam.logout_ended(outcome);
                }
            }
            Event::LogoutToken { iam, result, .. } => {
                if let Some(outcome) = outcome_of(result) {
                    let iam = iam.map(|iam| &**iam);
                    self.logout_tokens(outcome, iam).inc();
                }
            }
            Event::IamCall {
                iam,
                operation,
                result,
                took,
            } => {
                if let Some(iam) = self.iam(iam) {
                    iam.called(operation, result, took);
                }
            }
            Event::Circuit {
                iam,
                operation,
                circuit,
            } => {
                if let Some(iam) = self.iam(iam) {
                    iam.circuit(operation, circuit);
                }
            }
            Event::Clock {
                iam: Some(iam),
                offset,
            } => {
                if let Some(iam) = self.iam(iam) {
                    iam.clock(offset);
                }
            }
            _ => self.replicas.on_event(event),
        }
    }
}

/// The outcome of a logout token that was not invalid.
#[derive(Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
enum LogoutTokenOutcome {
    /// It ended one IAM session.
    SessionEnded,
    /// It ended all sessions of a subject.
    SubjectEnded,
    /// It was refused unread, because its sender had sent too many invalid ones.
    TurnedAway,
    /// It could not be verified.
    Fault,
}

/// The outcome of a logout token that the gateway received; `None` if the IAM sends none.
fn outcome_of(received: Result<&EndedByIam, &GatewayError>) -> Option<&'static str> {
    let outcome = match received.map(|by_iam| &by_iam.ended) {
        Ok(Ended::Session(_)) => LogoutTokenOutcome::SessionEnded,
        Ok(Ended::AllOf(_)) => LogoutTokenOutcome::SubjectEnded,
        Err(GatewayError::InvalidLogoutToken(why)) => return Some(why.name()),
        Err(GatewayError::TooManyLogoutTokens { .. }) => LogoutTokenOutcome::TurnedAway,
        Err(GatewayError::NoLogoutTokens) => return None,
        Err(_) => LogoutTokenOutcome::Fault,
    };
    Some(outcome.name())
}
