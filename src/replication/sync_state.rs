//! Whether this replica is synchronized with the others. Each change is reported once: in the log, in
//! readiness and in the metrics.

use std::sync::{Arc, Mutex, PoisonError};

use super::RedisFault;
use crate::health::{Health, Readiness, Reason, ReasonCode};
use crate::telemetry::metrics::ReplicaMetrics;

#[derive(Debug)]
struct State {
    /// `None`: not tried yet.
    connection: Option<Result<(), RedisFault>>,
    refused: Option<RedisFault>,
    wrong_clock: Option<Reason>,
    /// No token is issued before the first catch-up.
    catching_up: bool,
}

/// The current state, and where its changes are reported.
#[derive(Debug)]
pub(super) struct SyncState {
    state: Mutex<State>,
    health: Arc<Health>,
    metrics: ReplicaMetrics,
}

impl SyncState {
    pub(super) fn new(health: Arc<Health>, metrics: ReplicaMetrics) -> Self {
        let sync_state = Self {
            state: Mutex::new(State {
                connection: None,
                refused: None,
                wrong_clock: None,
                catching_up: true,
            }),
            health,
            metrics,
        };
        sync_state.change(|_| false);
        sync_state
    }

    pub(super) fn synchronized(&self) {
        self.change(|state| {
            state.connection = Some(Ok(()));
            state.catching_up = false;
            tracing::info!("synchronized with the other replicas");
            true
        });
    }

    pub(super) fn disconnected(&self, fault: &RedisFault) {
        self.change(|state| {
            let changed = state.connection.as_ref() != Some(&Err(fault.clone()));
            if changed {
                tracing::warn!(error = %fault, "not synchronized with the other replicas");
            }
            state.connection = Some(Err(fault.clone()));
            state.refused = None;
            state.wrong_clock = None;
            changed
        });
    }

    /// Tokens are issued although the revocations in Redis are not read yet.
    pub(super) fn catch_up_overdue(&self) {
        self.change(|state| {
            tracing::warn!("tokens are issued without the revocations of the other replicas");
            std::mem::take(&mut state.catching_up)
        });
    }

    pub(super) fn refused(&self, fault: &RedisFault) {
        self.change(|state| {
            let changed = state.refused.as_ref() != Some(fault);
            if changed {
                tracing::warn!(error = %fault, "Redis does not store revocations");
            }
            state.refused = Some(fault.clone());
            changed
        });
    }

    pub(super) fn accepted(&self) {
        self.change(|state| {
            let changed = state.refused.take().is_some();
            if changed {
                tracing::info!("Redis stores revocations again");
            }
            changed
        });
    }

    /// The clock of Redis has this [`offset`](iam_adapters::clock::offset).
    pub(super) fn clock(&self, offset: f64) {
        self.metrics.clock(offset);
        self.change(|state| {
            let wrong = Reason::of_clock("Redis", offset);
            let changed = state.wrong_clock != wrong;
            state.wrong_clock = wrong;
            changed
        });
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = state.connection.is_none();
        if change(&mut state) || is_first {
            self.metrics
                .synchronized(matches!(state.connection, Some(Ok(()))));
            let (readiness, reasons) = report(&state);
            self.health.replicas(readiness, reasons);
        }
    }
}

fn report(state: &State) -> (Readiness, Vec<Reason>) {
    let reason = |code, message: String| Reason::new(code, message);
    let unread = match &state.connection {
        Some(Ok(())) => None,
        None => Some("Redis is not read yet".to_owned()),
        Some(Err(fault)) => Some(format!("Redis {fault}")),
    };
    let unread = unread.map(|why| {
        if state.catching_up {
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
    let reasons: Vec<_> = [unread, refused, state.wrong_clock.clone()]
        .into_iter()
        .flatten()
        .collect();
    let readiness = if state.catching_up {
        Readiness::NotReady
    } else if reasons.is_empty() {
        Readiness::Ready
    } else {
        Readiness::Degraded
    };
    (readiness, reasons)
}
