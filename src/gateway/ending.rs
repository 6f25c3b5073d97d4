//! What the IAM tells by itself: that sessions ended.

use super::Gateway;
use super::error::InvalidSession;
use super::revocations::{Revocation, RevocationKey, SessionNames};

impl Gateway {
    /// Takes note that a session of the IAM's is over, by the IAM's own id of it.
    ///
    /// Which key sealed the sessions that rest on it nobody said, so its end has a name under each.
    pub fn end_upstream_session(&self, id: &str) {
        // Sessions of an adapter that has no ids for them all have this one.
        if id.is_empty() {
            return;
        }
        let (adapter, issuer) = (self.iam.name(), self.iam.issuer());
        let (now, longest) = (self.clock.now(), self.policy.session_max_lifetime);
        self.end_under_every_key(|key| {
            let name = key.upstream_session(adapter, issuer, id);
            Revocation::of_upstream_session(name, now, longest)
        });
    }

    /// Takes note that every session of the subject is over whose credentials were verified at
    /// `verified_until`, in seconds since 1970, or before.
    pub fn end_sessions_of(&self, subject: &str, verified_until: u64) {
        let (adapter, issuer) = (self.iam.name(), self.iam.issuer());
        let (now, longest) = (self.clock.now(), self.policy.session_max_lifetime);
        self.end_under_every_key(|key| {
            let name = key.subject(adapter, issuer, subject);
            Revocation::of_subject(name, verified_until, now, longest)
        });
    }

    fn end_under_every_key(&self, revocation: impl Fn(&RevocationKey) -> Revocation) {
        for key in self.keys.sealing.iter() {
            let revocation = revocation(key.revocations());
            self.revocations.record(&revocation, self.clock.now());
        }
    }

    pub(super) fn refuse_ended(&self, names: &mut SessionNames<'_>) -> Result<(), InvalidSession> {
        self.revocations
            .end_of(names)
            .map_or(Ok(()), |end| Err(end.into()))
    }
}
