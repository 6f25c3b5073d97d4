//! How this replica stands with the others, told once for each change: in the log, to readiness and
//! in the figures.

use std::sync::{Arc, Mutex, PoisonError};

use super::RedisFault;
use crate::health::{Health, Readiness, Reason, ReasonCode};
use crate::telemetry::metrics::ReplicaFigures;

#[derive(Debug)]
struct State {
    /// None: not yet tried.
    in_step: Option<Result<(), RedisFault>>,
    refused: Option<RedisFault>,
    /// Whether no token is issued before the first catch-up.
    waiting: bool,
}

/// The last word on each thing that can be wrong.
#[derive(Debug)]
pub(super) struct Standing {
    state: Mutex<State>,
    health: Arc<Health>,
    figures: ReplicaFigures,
}

impl Standing {
    pub(super) fn new(health: Arc<Health>, figures: ReplicaFigures) -> Self {
        let standing = Self {
            state: Mutex::new(State {
                in_step: None,
                refused: None,
                waiting: true,
            }),
            health,
            figures,
        };
        standing.change(|_| false);
        standing
    }

    pub(super) fn in_step(&self) {
        self.change(|state| {
            state.in_step = Some(Ok(()));
            state.waiting = false;
            tracing::info!("in step with the other replicas");
            true
        });
    }

    pub(super) fn out_of_step(&self, fault: &RedisFault) {
        self.change(|state| {
            let changed = state.in_step.as_ref() != Some(&Err(fault.clone()));
            if changed {
                tracing::warn!(error = %fault, "out of step with the other replicas");
            }
            state.in_step = Some(Err(fault.clone()));
            state.refused = None;
            changed
        });
    }

    /// Tokens are issued from now on, although the revocations in Redis are not read yet.
    pub(super) fn overdue(&self) {
        self.change(|state| {
            tracing::warn!("tokens are issued without the revocations of the other replicas");
            std::mem::take(&mut state.waiting)
        });
    }

    pub(super) fn refused(&self, fault: &RedisFault) {
        self.change(|state| {
            let changed = state.refused.as_ref() != Some(fault);
            if changed {
                tracing::warn!(error = %fault, "Redis keeps no revocations");
            }
            state.refused = Some(fault.clone());
            changed
        });
    }

    pub(super) fn accepted(&self) {
        self.change(|state| {
            let changed = state.refused.take().is_some();
            if changed {
                tracing::info!("Redis keeps revocations again");
            }
            changed
        });
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let began = state.in_step.is_none();
        if change(&mut state) || began {
            self.figures.in_step(matches!(state.in_step, Some(Ok(()))));
            let (readiness, reasons) = report(&state);
            self.health.replicas(readiness, reasons);
        }
    }
}

fn report(state: &State) -> (Readiness, Vec<Reason>) {
    let reason = |code, message: String| Reason { code, message };
    let unread = match &state.in_step {
        Some(Ok(())) => None,
        None => Some("Redis is not read yet".to_owned()),
        Some(Err(fault)) => Some(format!("Redis {fault}")),
    };
    let unread = unread.map(|why| {
        if state.waiting {
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
    let reasons: Vec<_> = [unread, refused].into_iter().flatten().collect();
    let readiness = if state.waiting {
        Readiness::NotReady
    } else if reasons.is_empty() {
        Readiness::Ready
    } else {
        Readiness::Degraded
    };
    (readiness, reasons)
}
