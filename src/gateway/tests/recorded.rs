//! An observer that keeps what it receives.

use std::sync::Mutex;

use crate::gateway::Observer;
use crate::gateway::session::SessionId;
use crate::gateway::upstream_logouts::Outcome;

/// What an [`Observer`] received, in text.
#[derive(Debug, Default)]
pub(crate) struct Recorded(Mutex<Vec<String>>);

impl Recorded {
    /// What was received since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Recorded {
    fn slow_rate_began(&self, email: &str, is_known_network: bool) {
        let text = format!("slow rate of {email}, known network: {is_known_network}");
        self.0.lock().unwrap().push(text);
    }

    fn logout_ended(&self, iam: &str, session_id: SessionId, outcome: Outcome) {
        let text = format!("logout of {session_id} at {iam}: {}", outcome.name());
        self.0.lock().unwrap().push(text);
    }
}
