//! Counts the events of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iam_adapters::IamError;
use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::name::Name as _;
use iam_adapters::resilient::{Circuit, Operation};
use prometheus_client::metrics::counter::Counter;
use strum::{IntoStaticStr, VariantArray};

use super::{Metrics, OwnedLabels, each, names, owned};
use auth_gateway_core::error::{GatewayError, Limit};
use auth_gateway_core::event::{EntryOutcome, Event, Ignored, LoginEnd, Replicated, Subscriber};
use auth_gateway_core::results::{EndedByIam, Source, UpstreamLogoutOutcome};

/// The outcomes of a call to the IAM.
const CALL_OUTCOMES: [&str; 10] = [
    "ok",
    "refused",
    "unreachable",
    "timed_out",
    "failed",
    "throttled",
    "unreadable",
    "misconfigured",
    "saturated",
    "circuit_open",
];

/// The outcomes of login events that replicas share.
pub(super) const LOGIN_EVENTS: [&str; 4] = ["sent", "dropped", "received", "ignored"];

/// Why entries of the stream of revocations are ignored.
pub(super) const IGNORED: [Ignored; 3] = [Ignored::Malformed, Ignored::UnknownKey, Ignored::Forged];

/// The counters of exchanges, by the source of their data.
type ExchangeCounters = Box<[Counter]>;

/// Counts the events of one gateway. Events that are attributed to no IAM have an empty name of the IAM.
#[derive(Debug)]
pub struct EventMetrics {
    metrics: Arc<Metrics>,
    /// Each IAM by its name, with the counters of its exchanges by their source: a look-up by labels takes a
    /// lock and allocates.
    iams: Box<[(Box<str>, ExchangeCounters)]>,
    /// Whether each of the two logs of login events is synchronized.
    logins_synchronized: [AtomicBool; 2],
}

impl EventMetrics {
    /// Counts the events of a gateway with these IAMs.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, iams: &[&str]) -> Self {
        let exchanges = |iam: &&str| {
            let counters = each(|source: Source| {
                let labels = owned([("source", source.name()), ("iam", iam)]);
                metrics.families.exchanges.get_or_create_owned(&labels)
            });
            (Box::from(*iam), counters)
        };
        let this = Self {
            iams: iams.iter().map(exchanges).collect(),
            logins_synchronized: Default::default(),
            metrics,
        };
        for iam in iams {
            this.make_series(iam);
        }
        let families = &this.metrics.families;
        let redis = owned([("peer", "redis"), ("iam", "")]);
        let _ = families.clock_offset.get_or_create(&redis);
        let none = (iams.len() > 1).then_some(None);
        for iam in iams.iter().copied().map(Some).chain(none) {
            for limit in names::<Limit>() {
                let labels = this.labels(("limit", limit), iam);
                let _ = families.logins_throttled.get_or_create(&labels);
            }
            for outcome in names::<InvalidLogoutToken>().chain(names::<LogoutTokenOutcome>()) {
                let labels = this.labels(("outcome", outcome), iam);
                let _ = families.logout_tokens.get_or_create(&labels);
            }
        }
        this
    }

    /// Makes the series of an IAM.
    fn make_series(&self, iam: &str) {
        let (families, iam) = (&self.metrics.families, ("iam", iam));
        let offset = owned([("peer", "iam"), iam]);
        let _ = families.clock_offset.get_or_create(&offset);
        for outcome in names::<UpstreamLogoutOutcome>() {
            let labels = owned([("outcome", outcome), iam]);
            let _ = families.unfinished_logouts_ended.get_or_create(&labels);
        }
        for operation in Operation::ALL {
            let operation = ("operation", operation.name());
            for outcome in CALL_OUTCOMES {
                let labels = owned([operation, ("outcome", outcome), iam]);
                let _ = families.iam_calls.get_or_create(&labels);
            }
            let labels = owned([operation, iam]);
            let _ = families.iam_call_duration.get_or_create(&labels);
            let _ = families.iam_circuit.get_or_create(&labels);
        }
    }

    /// An event without an IAM is attributed to the only one.
    fn labels(&self, label: (&'static str, &str), iam: Option<&str>) -> OwnedLabels<2> {
        let only = || match &*self.iams {
            [(only, _)] => Some(&**only),
            _ => None,
        };
        owned([label, ("iam", iam.or_else(only).unwrap_or_default())])
    }

    fn replication(&self, of: Replicated, is_received: bool, is_stored: bool) {
        let [logins, known_networks] = &self.logins_synchronized;
        let is_exchanged = is_received && is_stored;
        let families = &self.metrics.families;
        match of {
            Replicated::Revocations => {
                families
                    .revocations_synchronized
                    .set(i64::from(is_received));
            }
            Replicated::Logins => logins.store(is_exchanged, Ordering::Relaxed),
            Replicated::KnownNetworks => known_networks.store(is_exchanged, Ordering::Relaxed),
            Replicated::Keys => {}
        }
        let both = [logins, known_networks].map(|log| log.load(Ordering::Relaxed));
        let both = i64::from(both == [true, true]);
        families.login_limits_synchronized.set(both);
    }

    fn entries(&self, of: Replicated, outcome: EntryOutcome, count: usize) {
        let (families, count) = (&self.metrics.families, count as u64);
        match of {
            Replicated::Revocations | Replicated::Keys => match outcome {
                EntryOutcome::Sent => families.revocations_sent.inc_by(count),
                EntryOutcome::Refused => families.revocations_failed.inc_by(count),
                EntryOutcome::Received => families.revocations_received.inc_by(count),
                EntryOutcome::Ignored(why) => {
                    let labels = [("reason", why.name())];
                    let counter = families.revocations_ignored.get_or_create(&labels);
                    counter.inc_by(count)
                }
                EntryOutcome::Dropped => 0,
            },
            Replicated::Logins | Replicated::KnownNetworks => {
                let outcome = match outcome {
                    EntryOutcome::Sent => "sent",
                    EntryOutcome::Dropped => "dropped",
                    EntryOutcome::Received => "received",
                    EntryOutcome::Ignored(_) => "ignored",
                    EntryOutcome::Refused => return,
                };
                let counter = families.login_events.get_or_create(&[("outcome", outcome)]);
                counter.inc_by(count)
            }
        };
    }
}

impl Subscriber for EventMetrics {
    fn on_event(&self, event: &Event<'_>) {
        let families = &self.metrics.families;
        match *event {
            Event::Exchange {
                iam: Some(iam),
                result: Ok(source),
                ..
            } => {
                let of_iam = self.iams.iter().find(|(name, _)| **name == **iam);
                let counter = of_iam.and_then(|(_, counters)| counters.get(source as usize));
                if let Some(counter) = counter {
                    counter.inc();
                }
            }
            Event::Login {
                iam,
                end: LoginEnd::Decided(Err(GatewayError::TooManyLogins { limit, .. })),
                ..
            } => {
                let labels = self.labels(("limit", limit.name()), iam.map(|iam| &**iam));
                families.logins_throttled.get_or_create(&labels).inc();
            }
            Event::UntrackedLogin => {
                families.logins_untracked.inc();
            }
            Event::UpstreamLogout { iam, outcome, .. } => {
                let labels = owned([("outcome", outcome.name()), ("iam", iam)]);
                let counter = families.unfinished_logouts_ended.get_or_create(&labels);
                counter.inc();
            }
            Event::LogoutToken { iam, result, .. } => {
                if let Some(outcome) = outcome_of(result) {
                    let labels = self.labels(("outcome", outcome), iam.map(|iam| &**iam));
                    families.logout_tokens.get_or_create(&labels).inc();
                }
            }
            Event::IamCall {
                iam,
                operation,
                result,
                took,
            } => {
                let (iam, operation) = (("iam", iam), ("operation", operation.name()));
                let outcome = result.err().map_or("ok", IamError::kind);
                if CALL_OUTCOMES.contains(&outcome) {
                    let labels = owned([operation, ("outcome", outcome), iam]);
                    families.iam_calls.get_or_create(&labels).inc();
                }
                let labels = owned([operation, iam]);
                let histogram = families.iam_call_duration.get_or_create(&labels);
                histogram.observe(took);
            }
            Event::Circuit {
                iam,
                operation,
                circuit,
            } => {
                let level = match circuit {
                    Circuit::Closed => 0,
                    Circuit::HalfOpen => 1,
                    Circuit::Open => 2,
                };
                let labels = owned([("operation", operation.name()), ("iam", iam)]);
                families.iam_circuit.get_or_create(&labels).set(level);
            }
            Event::Clock { iam, offset } => {
                let peer = if iam.is_some() { "iam" } else { "redis" };
                let labels = owned([("peer", peer), ("iam", iam.unwrap_or_default())]);
                families.clock_offset.get_or_create(&labels).set(offset);
            }
            Event::Replication {
                of,
                received,
                stored,
                ..
            } => self.replication(of, received.is_ok(), stored.is_ok()),
            Event::Entries { of, outcome, count } => self.entries(of, outcome, count),
            Event::SharedLookUp { result } => {
                let labels = [("result", result.name())];
                families.shared_cache_lookups.get_or_create(&labels).inc();
            }
            _ => {}
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
