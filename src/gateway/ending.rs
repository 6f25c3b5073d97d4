//! Ends that did not begin with a logout here: the IAM tells them by itself, or another replica
//! does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use iam_adapters::Moment;

use super::Gateway;
use super::error::{InvalidSession, NotReady};
use super::replicas::{Replicas, Told};
use super::revocations::{Learned, Revocation, RevocationKey, Revocations, SessionNames};

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

    /// Takes note that every session of the subject is over whose login began at `begun_until`, in
    /// seconds since 1970, or before.
    pub fn end_sessions_of(&self, subject: &str, begun_until: u64) {
        let (adapter, issuer) = (self.iam.name(), self.iam.issuer());
        let (now, longest) = (self.clock.now(), self.policy.session_max_lifetime);
        self.end_under_every_key(|key| {
            let name = key.subject(adapter, issuer, subject);
            Revocation::of_subject(name, begun_until, now, longest)
        });
    }

    fn end_under_every_key(&self, revocation: impl Fn(&RevocationKey) -> Revocation) {
        for key in self.keys.sealing.key_set().iter() {
            // Nobody waits for this one.
            drop(
                self.sharer()
                    .share(revocation(key.revocations()), self.clock.now()),
            );
        }
    }

    pub(super) fn sharer(&self) -> Sharer {
        Sharer {
            revocations: Arc::clone(&self.revocations),
            replicas: self.replicas.get().cloned(),
        }
    }

    /// What ended here and elsewhere, and what of it the other replicas still have to be given.
    #[must_use]
    pub fn revocations(&self) -> &Arc<Revocations> {
        &self.revocations
    }

    /// From now on, the other replicas are told what ends here. Only the first call counts.
    ///
    /// Sessions may have ended there that are not known here, so no tokens are issued until
    /// [`Self::in_step_again`] or [`Self::serve_without_catching_up`].
    pub fn join(&self, replicas: Arc<dyn Replicas>) {
        // One gateway is one replica of one group: there is nothing to exchange later.
        if self.replicas.set(replicas).is_ok() {
            self.catching_up.store(true, Ordering::Release);
        }
    }

    /// From now on tokens are issued although what ended at the other replicas is not known. Returns
    /// whether that was the reason that none were.
    ///
    /// Only right before an IAM that holds the sessions: it calls those inactive that it was told
    /// of. A session whose logout failed there is accepted.
    pub fn serve_without_catching_up(&self) -> bool {
        self.catching_up.swap(false, Ordering::AcqRel)
    }

    /// Fails while sessions may have ended at other replicas before this one heard of any.
    pub(super) fn caught_up(&self) -> Result<(), NotReady> {
        if self.catching_up.load(Ordering::Acquire) {
            return Err(NotReady::CatchingUp);
        }
        Ok(())
    }

    /// Takes note of an end that another replica told.
    pub fn learn(&self, revocation: &Revocation) -> Learned {
        self.revocations.learn(revocation, self.clock.now())
    }

    /// Takes note that from now on every end that another replica tells is heard, after some may
    /// have been missed: what the IAM said until now is not believed any more.
    pub fn in_step_again(&self) {
        self.knowledge.distrust_until(self.clock.now());
        self.catching_up.store(false, Ordering::Release);
    }

    pub(super) fn refuse_ended(&self, names: &mut SessionNames<'_>) -> Result<(), InvalidSession> {
        self.revocations
            .end_of(names)
            .map_or(Ok(()), |end| Err(end.into()))
    }
}

/// Records ends and tells the other replicas, where there are any.
pub(super) struct Sharer {
    revocations: Arc<Revocations>,
    replicas: Option<Arc<dyn Replicas>>,
}

impl Sharer {
    /// Records an end, and tells the other replicas of it unless they have it already.
    pub(super) fn share(&self, revocation: Revocation, now: Moment) -> Told {
        match &self.replicas {
            Some(replicas) if self.revocations.share(&revocation, now) => replicas.tell(revocation),
            Some(_) => Box::pin(std::future::ready(())),
            None => {
                self.revocations.record(&revocation, now);
                Box::pin(std::future::ready(()))
            }
        }
    }
}
