//! The figures of revocations, and of what passes between replicas. Where no Redis is set, the
//! latter stay at zero.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::gateway::revocations::Revocations;

/// Why something that another replica seemed to tell was ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It is not what a replica writes.
    Malformed,
    /// It reaches further into the future than any session.
    Implausible,
}

impl Ignored {
    const ALL: [Self; 2] = [Self::Malformed, Self::Implausible];

    const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Implausible => "implausible",
        }
    }
}

/// How many revocations went to and fro.
#[derive(Debug, Clone, Default)]
pub struct ReplicaFigures {
    live: Gauge,
    room: Gauge,
    in_step: Gauge,
    outbox: Gauge,
    sent: Counter,
    failed: Counter,
    received: Counter,
    ignored: Family<[(&'static str, &'static str); 1], Counter>,
}

impl ReplicaFigures {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Revocations in the table of this replica";
        registry.register("revocations", help, self.live.clone());
        let help = "Number of revocations from which on no session can begin";
        registry.register("revocations_max", help, self.room.clone());
        let help = "Whether all revocations of the other replicas are received (1) or not (0)";
        registry.register("revocations_in_step", help, self.in_step.clone());
        let help = "Revocations not yet sent to the other replicas";
        registry.register("revocations_outbox", help, self.outbox.clone());
        let help = "Revocations sent to the other replicas and stored for them";
        registry.register("revocations_sent", help, self.sent.clone());
        let help = "Attempts to store a revocation that Redis refused";
        registry.register("revocations_failed", help, self.failed.clone());
        let help = "Revocations received from the other replicas";
        registry.register("revocations_received", help, self.received.clone());
        let help = "Invalid entries that were ignored, by reason";
        registry.register("revocations_ignored", help, self.ignored.clone());
        for reason in Ignored::ALL {
            let _ = self.ignored.get_or_create(&[("reason", reason.name())]);
        }
    }

    /// Takes how many revocations there are, and for how many there is room.
    pub fn take(&self, revocations: &Revocations) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        self.live.set(number(revocations.count()));
        self.room.set(number(revocations.capacity()));
    }

    /// Notes whether every revocation of the others is heard.
    pub fn in_step(&self, in_step: bool) {
        self.in_step.set(i64::from(in_step));
    }

    /// Notes how many revocations are still to be told.
    pub fn outbox(&self, count: usize) {
        self.outbox.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a revocation that was told and kept.
    pub fn sent(&self) {
        self.sent.inc();
    }

    /// Counts a revocation that Redis refused.
    pub fn failed(&self) {
        self.failed.inc();
    }

    /// Counts a revocation learned.
    pub fn received(&self) {
        self.received.inc();
    }

    /// Counts what was ignored.
    pub fn ignored(&self, why: Ignored) {
        self.ignored.get_or_create(&[("reason", why.name())]).inc();
    }
}
