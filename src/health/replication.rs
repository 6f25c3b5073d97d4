//! Whether this replica has the revocations of the others, and they have its own.

use super::{Reason, ReasonCode};
use auth_gateway_core::event::{Event, Replicated};

/// The state of the log of revocations. Without Redis it has no reasons.
#[derive(Debug, Default)]
pub(super) struct Replication {
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
                self.is_connected = received.is_ok();
                self.unread = received.err().map(|why| unread(why, is_catching_up));
                self.refused = stored.err().map(|why| {
                    let effect = "logouts here take effect at other replicas within session.freshness \
                                  if the IAM ends the session, and revocations by operators not \
                                  until Redis stores them";
                    reason(ReasonCode::RevocationsRefused, why, effect)
                });
            }
            Event::Clock { offset } => self.clock_offset = offset,
            _ => {}
        }
    }

    pub(super) fn reasons(&self) -> impl Iterator<Item = Reason> + use<> {
        let wrong_clock = Reason::of_clock("Redis", self.clock_offset);
        let reasons = [
            self.unread.clone(),
            self.refused.clone(),
            wrong_clock.filter(|_| self.is_connected),
        ];
        reasons.into_iter().flatten()
    }
}

fn unread(why: &str, is_catching_up: bool) -> Reason {
    if is_catching_up {
        let effect = "no tokens until the revocations in it are read, or until redis.catch_up_deadline, \
                      which does not apply with a directory or an OAuth 2 server without revocation, unless \
                      accept_local_logout is set";
        reason(ReasonCode::RevocationsCatchingUp, why, effect)
    } else {
        let effect = "logouts at other replicas take effect here within session.freshness if the IAM \
                      ends the session, and revocations by operators not until Redis is read";
        reason(ReasonCode::RevocationsUnreachable, why, effect)
    }
}

fn reason(code: ReasonCode, why: &str, effect: &str) -> Reason {
    Reason::new(code, format!("Redis {why}; {effect}"))
}
