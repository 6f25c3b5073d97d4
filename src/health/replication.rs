//! Whether this replica has the revocations of the others, and they have its own.

use super::{Readiness, Reason, ReasonCode};
use auth_gateway_core::event::{Event, Replicated};

/// The state of the log of revocations. Without Redis it has no reasons.
#[derive(Debug, Default)]
pub(super) struct Replication {
    is_catching_up: bool,
    is_connected: bool,
    unread: Option<Reason>,
    refused: Option<Reason>,
    /// Of the clock of Redis, in seconds.
    clock_offset: f64,
}

impl Replication {
    pub(super) fn on_event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Replication {
                of: Replicated::Revocations,
                received,
                stored,
                is_catching_up,
            } => {
                self.is_catching_up = is_catching_up;
                self.is_connected = received.is_ok();
                self.unread = received.err().map(|why| unread(why, is_catching_up));
                self.refused = stored.err().map(refused);
            }
            Event::Clock { iam: None, offset } => self.clock_offset = offset,
            _ => {}
        }
    }

    /// The readiness of a replica for which nothing else matters, and why.
    pub(super) fn readiness(&self) -> (Readiness, Vec<Reason>) {
        let wrong_clock = Reason::of_clock("Redis", self.clock_offset);
        let reasons = [
            self.unread.clone(),
            self.refused.clone(),
            wrong_clock.filter(|_| self.is_connected),
        ];
        let reasons: Vec<_> = reasons.into_iter().flatten().collect();
        let readiness = if self.is_catching_up {
            Readiness::NotReady
        } else if reasons.is_empty() {
            Readiness::Ready
        } else {
            Readiness::Degraded
        };
        (readiness, reasons)
    }
}

fn unread(why: &str, is_catching_up: bool) -> Reason {
    let (code, effect) = if is_catching_up {
        (
            ReasonCode::RevocationsCatchingUp,
            "no tokens until the revocations in it are read, or until the deadline",
        )
    } else {
        (
            ReasonCode::RevocationsUnreachable,
            "logouts at other replicas take effect within session.freshness",
        )
    };
    Reason::new(code, format!("Redis {why}; {effect}"))
}

fn refused(why: &str) -> Reason {
    let effect =
        "at a replica that starts or reconnects, logouts take effect within session.freshness";
    let message = format!("Redis {why}; {effect}");
    Reason::new(ReasonCode::RevocationsRefused, message)
}
