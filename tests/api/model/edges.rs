//! Advancing the clock to the moment at which cached data or a session expires.

use std::time::Duration;

use super::fixture::ModelFixture;
use super::scenario::Edge;

impl ModelFixture {
    pub(super) fn wait_for(&self, edge: Edge, at: usize, session: u8, millis: i8) {
        let left = self
            .session(session)
            .and_then(|session| self.left(edge, at, session));
        let offset = Duration::from_millis(millis.unsigned_abs().into());
        let left = left.and_then(|left| match millis {
            ..0 => left.checked_sub(offset),
            0.. => Some(left + offset),
        });
        if let Some(left) = left {
            self.advance(left);
        }
    }

    /// The time until then, by the replica's clocks; `None` if it is over.
    fn left(&self, edge: Edge, at: usize, session: usize) -> Option<Duration> {
        let (now, state) = (self.clock_of(at), &self.session_states[session]);
        let setting = &self.setting;
        let bound = match edge {
            Edge::Liveness => setting.freshness,
            Edge::StaleLiveness => setting.freshness + setting.stale_if_error,
            Edge::Permissions => setting.permissions_ttl,
            Edge::StalePermissions => setting.permissions_ttl + setting.stale_if_error,
            Edge::Expiry => {
                return Duration::from_secs(state.pair.expires_at).checked_sub(now.unix);
            }
        };
        let reports = self.replicas[at].iam.reports();
        let asked = reports
            .iter()
            .rfind(|report| report.session == state.upstream)?
            .asked;
        (asked.monotonic + Duration::from_secs(bound)).checked_sub(now.monotonic)
    }
}
