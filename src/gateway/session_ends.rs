//! The ends of sessions: those that the IAM or another replica reports, and what the other
//! replicas have to learn of those that happened here.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use iam_adapters::logout_token::{Ended, SKEW_MAX};
use iam_adapters::{Clock, IamAdapter, Moment};

use super::keys::Keys;
use super::revocations::{Learned, Revocation, RevocationKey, Revocations};

/// Ready when the other replicas have the revocation, or when waiting longer would delay a client
/// too much. A caller that need not wait drops it: the revocation is sent all the same.
pub type Delivered = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Sends the other replicas what the table of revocations has queued for them.
pub trait Replicas: fmt::Debug + Send + Sync {
    /// A revocation was queued. What cannot be sent now stays queued; until it is sent, the
    /// freshness of knowledge bounds how long the session is accepted elsewhere.
    fn tell(&self, revocation: Revocation) -> Delivered;
}

/// Records ends of sessions, and shares them with the other replicas, where there are any.
pub struct SessionEnds {
    iam: Arc<dyn IamAdapter>,
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    session_max_lifetime: Duration,
    revocations: Arc<Revocations>,
    replicas: OnceLock<Arc<dyn Replicas>>,
}

impl SessionEnds {
    pub(super) fn new(
        iam: Arc<dyn IamAdapter>,
        keys: Arc<Keys>,
        clock: Arc<dyn Clock>,
        session_max_lifetime: Duration,
        revocations: Arc<Revocations>,
    ) -> Self {
        Self {
            iam,
            keys,
            clock,
            session_max_lifetime,
            revocations,
            replicas: OnceLock::new(),
        }
    }

    /// Records that a session of the IAM has ended, by the IAM's id of it.
    ///
    /// The key that sealed the sessions which rest on it is not known, so its end is recorded under
    /// the name of each key.
    pub fn end_upstream_session(&self, id: &str) {
        // With adapters that have no ids, all sessions have this one.
        if id.is_empty() {
            return;
        }
        let (adapter, issuer) = (self.iam.name(), self.iam.issuer());
        let (now, longest) = (self.clock.now(), self.session_max_lifetime);
        self.share_under_every_key(|key| {
            let name = key.upstream_session(adapter, issuer, id);
            Revocation::of_upstream_session(name, now, longest)
        });
    }

    /// Records that all sessions of the subject have ended whose login began at `begun_until`, in
    /// seconds since 1970, or before.
    pub fn end_sessions_of(&self, subject: &str, begun_until: u64) {
        let (adapter, issuer) = (self.iam.name(), self.iam.issuer());
        let (now, longest) = (self.clock.now(), self.session_max_lifetime);
        self.share_under_every_key(|key| {
            let name = key.subject(adapter, issuer, subject);
            Revocation::of_subject(name, begun_until, now, longest)
        });
    }

    /// Records what a logout token reports that the IAM issued at `issued_at`, in seconds since
    /// 1970.
    pub(super) fn end_by_logout_token(&self, ended: &Ended, issued_at: u64) {
        match ended {
            Ended::Session(id) => self.end_upstream_session(id),
            Ended::AllOf(subject) => {
                let until = begun_until(issued_at, self.clock.now());
                self.end_sessions_of(subject.as_str(), until);
            }
        }
    }

    fn share_under_every_key(&self, revocation: impl Fn(&RevocationKey) -> Revocation) {
        for key in self.keys.sealing.key_set().iter() {
            // No client waits for this one.
            drop(self.share(revocation(key.revocations()), self.clock.now()));
        }
    }

    /// Records an end, and sends it to the other replicas unless they have it.
    pub(super) fn share(&self, revocation: Revocation, now: Moment) -> Delivered {
        match self.replicas.get() {
            Some(replicas) if self.revocations.share(&revocation, now) => replicas.tell(revocation),
            Some(_) => Box::pin(std::future::ready(())),
            None => {
                self.revocations.record(&revocation, now);
                Box::pin(std::future::ready(()))
            }
        }
    }

    /// From now on, the other replicas are sent what ends here. Only the first call has an effect:
    /// a gateway is one replica of one group.
    ///
    /// Sessions may have ended there that are not known here, so no tokens are issued until
    /// [`Gateway::in_step_again`](super::Gateway::in_step_again) or
    /// [`Self::serve_without_catching_up`].
    pub fn join(&self, replicas: Arc<dyn Replicas>) {
        if self.replicas.set(replicas).is_ok() {
            self.revocations.begin_catching_up();
        }
    }

    /// Issues tokens from now on although the ends at the other replicas are not known. Returns
    /// whether that was the reason that none were issued.
    ///
    /// Only for an IAM that holds the sessions: it calls those inactive whose logout it confirmed.
    /// A session whose logout failed there is accepted.
    pub fn serve_without_catching_up(&self) -> bool {
        self.revocations.stop_catching_up()
    }

    /// Records an end that another replica sent.
    pub fn learn(&self, revocation: &Revocation) -> Learned {
        self.revocations.learn(revocation, self.clock.now())
    }

    /// The table of revocations.
    #[must_use]
    pub fn revocations(&self) -> &Arc<Revocations> {
        &self.revocations
    }
}

/// Which sessions of a subject a logout token without a session ends: those whose login began at
/// this second or before, in seconds since 1970.
///
/// The IAM's clock dates the token, the gateway's clock dates the logins, and the two may differ.
/// So the time at which the token arrives, by the gateway's clock, divides the logins. A login
/// counts from the time at which its credentials were sent: the IAM may have verified them before
/// it issued the token, however late its response comes. A login of the same second is ended too,
/// because nothing shows which came first, and its user can log in again. A token that was delayed
/// ends no session that began more than the clocks may differ after the token was issued.
fn begun_until(issued_at: u64, now: Moment) -> u64 {
    let latest = issued_at.saturating_add(SKEW_MAX.as_secs());
    now.unix_seconds().min(latest)
}
