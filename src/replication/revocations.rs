//! The log of revocations.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iam_adapters::Clock;

use super::format::{self, ENTRY_LEN, Entry};
use super::log::{Codec, Log, LogState};
use super::outbox::Outbox;
use super::redis::Page;
use crate::health::{Health, Readiness, Reason, ReasonCode};
use crate::telemetry::metrics::{Ignored, ReplicaMetrics};
use auth_gateway_core::Gateway;
use auth_gateway_core::entry_key::{EntryKey, KEY_ID_LEN};
use auth_gateway_core::revocations::{Learned, Revocation, RevocationIndex, RevocationKey};

/// Sends the revocations of a gateway, and applies those of the others to it.
#[derive(Debug)]
pub(super) struct RevocationCodec {
    pub(super) gateway: Arc<Gateway>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: ReplicaMetrics,
    /// How the clock of Redis differs from that of this replica, if it differs much.
    pub(super) wrong_clock: Mutex<Option<Reason>>,
}

impl Codec<ENTRY_LEN> for RevocationCodec {
    type Item = RevocationIndex;
    type Content = Revocation;

    const READ_PAUSE: Duration = Duration::from_millis(25);

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        let keys = self.gateway.keys().sealing.key_set();
        let keys = keys.iter().map(|key| RevocationKey::of(key).entries());
        keys.map(EntryKey::id).collect()
    }

    fn load(&self, index: &RevocationIndex) -> Option<Revocation> {
        self.gateway.session_revoker().revocations().get(index)
    }

    fn encode(&self, batch: &[(RevocationIndex, Revocation)]) -> Vec<Entry> {
        let keys = self.gateway.keys().sealing.key_set();
        let key = RevocationKey::of(keys.current(self.clock.now())).entries();
        let entries = batch.iter();
        entries
            .map(|(_, content)| format::write(content, key))
            .collect()
    }

    fn count(&self, stored: usize, refused: usize) {
        self.metrics.sent.inc_by(stored as u64);
        self.metrics.failed.inc_by(refused as u64);
    }

    fn apply(&self, page: &Page<ENTRY_LEN>, outbox: &Outbox<RevocationIndex>) {
        let keys = self.gateway.keys().sealing.key_set();
        let revoker = self.gateway.session_revoker();
        self.metrics.ignored(Ignored::Malformed, page.invalid);
        for entry in &page.entries {
            match format::read(entry, &keys) {
                Ok(revocation) => {
                    if revoker.learn(&revocation) == Learned::New {
                        self.metrics.received.inc();
                    }
                    let is_current = || revoker.revocations().is_latest(&revocation);
                    outbox.found(&revocation.index(), is_current);
                }
                Err(why) => self.metrics.ignored(why, 1),
            }
        }
    }

    fn caught_up(&self) {
        self.gateway.caught_up();
    }

    fn missing(&self, is_missing: &dyn Fn(&RevocationIndex) -> bool) -> Vec<RevocationIndex> {
        let revocations = self.gateway.session_revoker().revocations();
        revocations.shared(self.clock.now(), is_missing)
    }

    fn report(&self, state: &LogState) {
        self.metrics
            .synchronized(matches!(state.connection, Some(Ok(()))));
        let revocations = self.gateway.session_revoker().revocations();
        let wrong_clock = self.wrong_clock();
        let (readiness, reasons) =
            readiness(state, wrong_clock.as_ref(), revocations.is_catching_up());
        self.health.replicas(readiness, reasons);
    }
}

impl RevocationCodec {
    fn wrong_clock(&self) -> MutexGuard<'_, Option<Reason>> {
        self.wrong_clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log<RevocationCodec, ENTRY_LEN> {
    /// Reports how the clock of Redis differs, if that has changed.
    pub(super) fn clock_is(&self, wrong: Option<Reason>) {
        let has_changed = {
            let mut reported = self.codec.wrong_clock();
            let has_changed = *reported != wrong;
            *reported = wrong;
            has_changed
        };
        if has_changed {
            self.report();
        }
    }
}

fn readiness(
    state: &LogState,
    wrong_clock: Option<&Reason>,
    is_catching_up: bool,
) -> (Readiness, Vec<Reason>) {
    let reason = |code, message: String| Reason::new(code, message);
    let unread = match &state.connection {
        Some(Ok(())) => None,
        None => Some("Redis is not read yet".to_owned()),
        Some(Err(fault)) => Some(format!("Redis {fault}")),
    };
    let unread = unread.map(|why| {
        if is_catching_up {
            let until = "no tokens until the revocations in it are read, or until the deadline";
            reason(ReasonCode::RevocationsCatchingUp, format!("{why}; {until}"))
        } else {
            let bound = "logouts at other replicas take effect within session.freshness";
            reason(
                ReasonCode::RevocationsUnreachable,
                format!("{why}; {bound}"),
            )
        }
    });
    let refused = state.refused.as_ref().map(|fault| {
        let bound =
            "at a replica that starts or reconnects, logouts take effect within session.freshness";
        reason(
            ReasonCode::RevocationsRefused,
            format!("Redis {fault}; {bound}"),
        )
    });
    let reasons = [unread, refused, wrong_clock.cloned()];
    let reasons: Vec<_> = reasons.into_iter().flatten().collect();
    let readiness = if is_catching_up {
        Readiness::NotReady
    } else if reasons.is_empty() {
        Readiness::Ready
    } else {
        Readiness::Degraded
    };
    (readiness, reasons)
}
