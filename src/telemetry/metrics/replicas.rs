//! The metrics of revocations, and of their and the login events' replication. Without Redis, those of the replication stay
//! at zero.

use iam_adapters::name::Name as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::VariantArray as _;

use super::Labels;
use super::iam::ClockOffset;
use auth_gateway_core::Gateway;
use auth_gateway_core::event::{EntryOutcome, Event, Ignored, Replicated};
use auth_gateway_core::results::LookUp;

/// The outcomes of login events that replicas share.
const LOGIN_EVENT_OUTCOMES: [&str; 4] = ["sent", "dropped", "received", "ignored"];

/// Why entries of the stream of revocations are ignored.
const IGNORED: [Ignored; 3] = [Ignored::Malformed, Ignored::UnknownKey, Ignored::Forged];

/// Counts revocations that this replica has, sends and receives, and login events.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplicaMetrics {
    live: Gauge,
    room: Gauge,
    synchronized: Gauge,
    pending: Gauge,
    sent: Counter,
    failed: Counter,
    received: Counter,
    ignored: Family<Labels<1>, Counter>,
    look_ups: Family<Labels<1>, Counter>,
    /// Whether each of the two logs of login events is synchronized.
    logins_synchronized: [Gauge; 2],
    /// Whether both are.
    login_limits_synchronized: Gauge,
    login_events: Family<Labels<1>, Counter>,
    clock_offset: ClockOffset,
}

impl ReplicaMetrics {
    pub(super) fn register(&mut self, registry: &mut Registry, clock_offset: ClockOffset) {
        self.clock_offset = clock_offset;
        let help = "Revocations in the table of this replica";
        registry.register("revocations", help, self.live.clone());
        let help = "Number of revocations from which on no session can begin";
        registry.register("revocations_max", help, self.room.clone());
        let help = "1 while this replica receives all revocations of the others";
        registry.register("revocations_synchronized", help, self.synchronized.clone());
        let help = "Revocations not yet sent to the other replicas";
        registry.register("revocations_pending", help, self.pending.clone());
        let help = "Revocations that Redis has stored for the other replicas";
        registry.register("revocations_sent", help, self.sent.clone());
        let help = "Attempts to store a revocation that Redis refused";
        registry.register("revocations_failed", help, self.failed.clone());
        let help = "Revocations received from the other replicas";
        registry.register("revocations_received", help, self.received.clone());
        let help = "Entries in Redis that were ignored: revocations and statements about keys, each time they are read";
        registry.register("revocations_ignored", help, self.ignored.clone());
        for reason in IGNORED {
            self.ignored(reason, 0);
        }
        let help = "Look-ups of cached data that replicas share";
        registry.register("shared_cache_lookups", help, self.look_ups.clone());
        for result in LookUp::VARIANTS {
            let labels = [("result", result.name())];
            let _ = self.look_ups.get_or_create(&labels);
        }
        let help = "1 while this replica shares its login limits with the others";
        registry.register(
            "login_limits_synchronized",
            help,
            self.login_limits_synchronized.clone(),
        );
        let help = "Login events that replicas share";
        registry.register("login_events", help, self.login_events.clone());
        for outcome in LOGIN_EVENT_OUTCOMES {
            self.login_events(outcome, 0);
        }
    }

    pub(super) fn take(&self, gateway: &Gateway) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let revocations = &gateway.tables().revocations;
        self.pending
            .set(number(gateway.session_revoker().pending()));
        self.live.set(number(revocations.count()));
        self.room.set(number(revocations.capacity()));
    }

    /// Counts an event of the replication.
    pub(super) fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Clock { iam: None, offset } => {
                self.clock_offset.set(offset);
            }
            Event::Replication {
                of,
                received,
                stored,
                ..
            } => self.synchronized(of, received.is_ok(), stored.is_ok()),
            Event::Entries { of, outcome, count } => match of {
                Replicated::Revocations | Replicated::Keys => self.revocations(outcome, count),
                Replicated::Logins | Replicated::KnownNetworks => match outcome {
                    EntryOutcome::Sent => self.login_events("sent", count),
                    EntryOutcome::Dropped => self.login_events("dropped", count),
                    EntryOutcome::Received => self.login_events("received", count),
                    EntryOutcome::Ignored(_) => self.login_events("ignored", count),
                    EntryOutcome::Refused => {}
                },
            },
            Event::SharedLookUp { result } => {
                let labels = [("result", result.name())];
                self.look_ups.get_or_create(&labels).inc();
            }
            _ => {}
        }
    }

    fn synchronized(&self, of: Replicated, is_received: bool, is_stored: bool) {
        let [logins, known_networks] = &self.logins_synchronized;
        let is_exchanged = i64::from(is_received && is_stored);
        match of {
            Replicated::Revocations => {
                self.synchronized.set(i64::from(is_received));
            }
            Replicated::Logins => {
                logins.set(is_exchanged);
            }
            Replicated::KnownNetworks => {
                known_networks.set(is_exchanged);
            }
            Replicated::Keys => {}
        }
        let both = logins.get().min(known_networks.get());
        self.login_limits_synchronized.set(both);
    }

    fn revocations(&self, outcome: EntryOutcome, count: usize) {
        match outcome {
            EntryOutcome::Sent => {
                self.sent.inc_by(count as u64);
            }
            EntryOutcome::Refused => {
                self.failed.inc_by(count as u64);
            }
            EntryOutcome::Received => {
                self.received.inc_by(count as u64);
            }
            EntryOutcome::Ignored(why) => self.ignored(why, count),
            EntryOutcome::Dropped => {}
        }
    }

    fn ignored(&self, why: Ignored, count: usize) {
        let counter = self.ignored.get_or_create(&[("reason", why.name())]);
        counter.inc_by(count as u64);
    }

    fn login_events(&self, outcome: &'static str, count: usize) {
        let counter = self.login_events.get_or_create(&[("outcome", outcome)]);
        counter.inc_by(count as u64);
    }
}
