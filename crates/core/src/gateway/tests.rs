mod coalescing;
mod exchange;
mod freshness;
mod load;
mod login;
mod logout;
mod logout_tokens;
mod one_failing_account;
pub(crate) mod recorded;
mod replicas;
mod revoked_by_operator;
mod revoked_during_introspection;
mod scope;
mod secrets;
mod session_revoker;
mod several_iams;
mod shared_cache;
mod stale;
mod steps;
mod stolen_sealing_key;
pub(crate) mod test_gateway;
mod timing;
mod upstream_logouts;

use crate::replica_state::Replicas;
use crate::revocations::Revocations;
use test_gateway::TestGateway;

impl TestGateway {
    /// Another replica, with this size of its table of revocations.
    pub(super) fn replica_with_room(&self, room: usize) -> Self {
        self.started_again(Replicas::default(), |replica| {
            replica.revocations = Revocations::with_capacity(room);
        })
    }
}
