//! Time that goes on to the very edge of something.

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

    /// How long it is until then, by the replica's clocks; none where it is over.
    fn left(&self, edge: Edge, at: usize, session: usize) -> Option<Duration> {
        let (now, life) = (self.clock_of(at), &self.lives[session]);
        let setting = &self.setting;
        let bound = match edge {
            Edge::Liveness => setting.freshness,
            Edge::StaleLiveness => setting.freshness + setting.stale_if_error,
            Edge::Permissions => setting.permissions_ttl,
            Edge::StalePermissions => setting.permissions_ttl + setting.stale_if_error,
            Edge::Expiry => {
                return Duration::from_secs(life.pair.expires_at).checked_sub(now.unix);
            }
        };
        let words = self.replicas[at].line.words();
        let asked = words
            .iter()
            .rfind(|word| word.session == life.upstream)?
            .asked;
        (asked.monotonic + Duration::from_secs(bound)).checked_sub(now.monotonic)
    }
}
