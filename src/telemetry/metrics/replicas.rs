//! The metrics of revocations, and of their and the login events' replication. Without Redis, those of the replication stay
//! at zero.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::{IntoStaticStr, VariantArray};

use super::Labels;
use super::iam::ClockOffset;
use auth_gateway_core::introspection_cache::shared::LookUp;
use auth_gateway_core::name::Name as _;
use auth_gateway_core::session_revoker::SessionRevoker;

/// Why an entry of the stream was ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Ignored {
    /// It does not have the format of a revocation.
    Malformed,
    /// It names a key that this replica does not have.
    UnknownKey,
    /// Its tag is wrong: no replica wrote it.
    Forged,
}

/// What happened to a login event that replicas share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum LoginEventOutcome {
    /// Redis has stored it.
    Sent,
    /// The queue was full.
    Dropped,
    /// It came from another replica, or from this one before its restart.
    Received,
    /// It was invalid, expired, or too far in the future.
    Ignored,
}

/// Counts revocations that this replica has, sends and receives, and login events.
#[derive(Debug, Clone, Default)]
pub struct ReplicaMetrics {
    live: Gauge,
    room: Gauge,
    synchronized: Gauge,
    pending: Gauge,
    /// Revocations that Redis has stored.
    pub sent: Counter,
    /// Revocations that Redis refused.
    pub failed: Counter,
    /// Revocations of other replicas.
    pub received: Counter,
    ignored: Family<Labels<1>, Counter>,
    look_ups: Family<Labels<1>, Counter>,
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
        for reason in Ignored::VARIANTS {
            self.ignored(*reason, 0);
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
        for outcome in LoginEventOutcome::VARIANTS {
            self.login_events(*outcome, 0);
        }
    }

    /// Sets the size of the table, its maximum, and the number of revocations that are not yet in the stream.
    pub fn take(&self, revoker: &SessionRevoker) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let revocations = revoker.revocations();
        self.pending.set(number(revoker.pending()));
        self.live.set(number(revocations.count()));
        self.room.set(number(revocations.capacity()));
    }

    /// Sets whether the revocations of the other replicas are received.
    pub fn synchronized(&self, synchronized: bool) {
        self.synchronized.set(i64::from(synchronized));
    }

    /// Sets the offset of the clock of Redis, in seconds.
    pub fn clock(&self, offset: f64) {
        self.clock_offset.set(offset);
    }

    /// Counts a look-up of shared data.
    pub fn looked_up(&self, result: LookUp) {
        let labels = [("result", result.name())];
        self.look_ups.get_or_create(&labels).inc();
    }

    /// Counts ignored entries.
    pub fn ignored(&self, why: Ignored, count: usize) {
        let counter = self.ignored.get_or_create(&[("reason", why.name())]);
        counter.inc_by(count as u64);
    }

    /// Sets whether login limits are shared with the other replicas.
    pub fn login_limits_synchronized(&self, synchronized: bool) {
        self.login_limits_synchronized.set(i64::from(synchronized));
    }

    /// Counts login events.
    pub fn login_events(&self, outcome: LoginEventOutcome, count: usize) {
        let labels = [("outcome", outcome.name())];
        self.login_events
            .get_or_create(&labels)
            .inc_by(count as u64);
    }
}
