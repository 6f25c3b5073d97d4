//! Advancing the clock to the moment at which cached data or a session expires.

use std::time::Duration;

use super::fixture::ModelFixture;
use super::scenario::Boundary;

impl ModelFixture {
    pub(super) fn wait_for(&self, edge: Boundary, at: usize, session: u8, millis: i8) {
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
    fn left(&self, edge: Boundary, at: usize, session: usize) -> Option<Duration> {
        let (now, state) = (self.clock_of(at), &self.session_states[session]);
        let setting = &self.setting;
        let bound = match edge {
            Boundary::Liveness => setting.freshness,
            Boundary::StaleLiveness => setting.freshness + setting.stale_if_error,
            Boundary::Permissions => setting.permissions_ttl,
            Boundary::StalePermissions => setting.permissions_ttl + setting.stale_if_error,
            Boundary::Expiry => {
                return Duration::from_secs(state.pair.expires_at).checked_sub(now.unix);
            }
        };
        let reports = self.replicas[at].iam.reports();
        let requested_at = reports
            .iter()
            .rfind(|report| report.session == state.upstream)?
            .requested_at;
        (requested_at.monotonic + Duration::from_secs(bound)).checked_sub(now.monotonic)
    }
}
