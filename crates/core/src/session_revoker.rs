//! Records revocations that come from the IAM, a logout, an operator or another replica, and sends
//! those of this replica to the others.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{JoinAll, join_all};
use iam_adapters::Moment;
use iam_adapters::logout_token::{AGE_MAX, Ended, LogoutNotice, SKEW_MAX};
use strum::IntoStaticStr;
use tokio::time::sleep;

use super::iams::{Iam, Iams};
use super::keys::{Key as _, SealingKey};
use super::replica_state::ReplicaState;
use super::revocations::{
    Delivered, Revocation, RevocationIndex, RevocationKey, RevocationKind, RevocationPublisher,
};
use crate::revoked_sessions::{NotRevocable, RevokedSessions};
use crate::timeline::DIFFERENCE_MAX;

/// For a revocation until the call returns, the time from its record to that return. Sessions begin at
/// other replicas meanwhile, so the revocation must have the time of the return before it is sent. It is
/// long enough for Redis and for the replicas, which look for new revocations every 25 ms.
const LEAD: Duration = Duration::from_millis(60);

/// The same if Redis took longer: longer than a revocation waits for it.
const LONG_LEAD: Duration = Duration::from_millis(300);

/// A revocation of an operator that is recorded, and perhaps not delivered yet.
struct Recorded {
    revocations: Vec<Revocation>,
    delivered: JoinAll<Delivered>,
}

/// Whether the other replicas have a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Propagation {
    /// This gateway publishes nothing to other replicas.
    Off,
    /// The other replicas receive it, also those that connect later.
    Delivered,
    /// Recorded here, and sent as soon as that is possible. Also if the sealing keys of the replicas differ: sessions
    /// of a key that is missing at one of them may not be revoked.
    Pending,
}

/// Records revocations and sends them to the other replicas, if there are any.
pub struct SessionRevoker {
    iams: Arc<Iams>,
    replica: Arc<ReplicaState>,
}

impl SessionRevoker {
    pub(super) const fn new(iams: Arc<Iams>, replica: Arc<ReplicaState>) -> Self {
        Self { iams, replica }
    }

    /// Whether there are other replicas to publish revocations to.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.replicas().is_some()
    }

    fn replicas(&self) -> Option<&Arc<dyn RevocationPublisher>> {
        self.replica.replicas.revocations.as_ref()
    }

    /// How many revocations are not sent to the other replicas yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.replicas().map_or(0, |replicas| replicas.pending())
    }

    /// Revokes the gateway sessions of an IAM session, by the IAM's session id.
    pub fn end_upstream_session(&self, iam: &Iam, id: &str) {
        // Adapters without session ids give all sessions this one.
        if !id.is_empty() {
            self.end(iam, u64::MAX, |key| {
                key.upstream_session(iam.kind, &iam.issuer, id)
            });
        }
    }

    /// Revokes all sessions of the IAM's subject whose login began at `begun_until` or before, in
    /// milliseconds since 1970 on the [`Timeline`](super::timeline::Timeline).
    pub fn end_sessions_of(&self, iam: &Iam, subject: &str, begun_until: u64) {
        self.end(iam, begun_until, |key| {
            key.subject(iam.kind, &iam.issuer, subject)
        });
    }

    fn end(&self, iam: &Iam, begun_until: u64, index: impl Fn(&RevocationKey) -> RevocationIndex) {
        let (now, longest) = (self.replica.clock.now(), iam.policy.session_max_lifetime);
        for revocation in self.under_every_key(begun_until, now, longest, index) {
            // No client waits for the delivery.
            drop(self.replica.publish(revocation, now));
        }
    }

    /// Revokes the sessions that a logout token names. The IAM issued it at `issued_at`, in seconds
    /// since 1970.
    pub(super) fn end_by_logout_token(&self, iam: &Iam, ended: &Ended, issued_at: u64) {
        match ended {
            Ended::Session(id) => self.end_upstream_session(iam, id),
            Ended::AllOf(subject) => {
                let latest_issue = issued_at.saturating_add(SKEW_MAX.as_secs());
                let now = self.replica.clock.now().unix_seconds();
                let delayed = now.saturating_sub(latest_issue);
                let until = begun_until(delayed, self.replica.timeline.now());
                self.end_sessions_of(iam, subject.as_str(), until);
            }
        }
    }

    /// Whether a replica has used this logout token.
    pub(super) fn is_used(&self, iam: &Iam, jti: &str) -> bool {
        let keys = self.replica.keys.sealing.key_set();
        keys.iter().any(|key| {
            let used = RevocationKey::of(key).logout_token(iam.kind, &iam.issuer, jti);
            self.replica.revocations.contains(used)
        })
    }

    /// Refuses a logout token at every replica from now on, as long as it could be accepted.
    pub(super) fn mark_used(&self, iam: &Iam, token: &LogoutNotice) {
        let now = self.replica.clock.now();
        let keys = self.replica.keys.sealing.key_set();
        let key = RevocationKey::of(keys.current(now));
        let used = key.logout_token(iam.kind, &iam.issuer, &token.jti);
        let used = Revocation::of(used, u64::MAX, now, AGE_MAX + SKEW_MAX);
        // The IAM does not wait for the delivery.
        drop(self.replica.publish(used, now));
    }

    /// Revokes sessions on behalf of an operator, at once. The future waits for the delivery to the other
    /// replicas, and until each session that begins after it ends is not revoked, except within the errors of
    /// the time line. The sessions at the IAM stay: without the session token the gateway has no credential
    /// for them.
    ///
    /// # Errors
    ///
    /// [`NotRevocable`]. No session is revoked then.
    pub fn revoke(
        &self,
        sessions: &RevokedSessions,
    ) -> Result<impl Future<Output = Propagation>, NotRevocable> {
        let lead = if self.is_shared() {
            LEAD
        } else {
            Duration::ZERO
        };
        let mut until = self.replica.timeline.after(lead);
        let Recorded {
            mut revocations,
            delivered,
        } = self.record(sessions, until)?;
        Ok(async move {
            delivered.await;
            if sessions.is_until_return() {
                if self.replica.timeline.now() > until && self.is_shared() {
                    until = self.replica.timeline.after(LONG_LEAD);
                    // It cannot fail: the first one has not.
                    if let Ok(again) = self.record(sessions, until) {
                        revocations = again.revocations;
                        again.delivered.await;
                    }
                }
                let left = Duration::from_millis(until.saturating_sub(self.replica.timeline.now()));
                sleep(left.min(LONG_LEAD) + Duration::from_millis(1)).await;
            }
            self.propagation(&revocations)
        })
    }

    fn propagation(&self, revocations: &[Revocation]) -> Propagation {
        let Some(replicas) = self.replicas() else {
            return Propagation::Off;
        };
        // There is no revocation under a key that this replica lacks, and the others ignore an entry of a key that
        // they lack.
        let keys_differ = self.replica.keys.differ(SealingKey::PURPOSE);
        if keys_differ || revocations.iter().any(|one| replicas.is_pending(one)) {
            Propagation::Pending
        } else {
            Propagation::Delivered
        }
    }

    /// Records the revocations of these sessions, and sends them to the other replicas.
    fn record(&self, sessions: &RevokedSessions, until: u64) -> Result<Recorded, NotRevocable> {
        let now = self.replica.clock.now();
        let revocations = self.revocations_of(sessions, until, now)?;
        let publish = |revocation: &Revocation| self.replica.publish(*revocation, now);
        Ok(Recorded {
            delivered: join_all(revocations.iter().map(publish)),
            revocations,
        })
    }

    /// The revocations of these sessions, for each sealing key. `until` is the time of those without
    /// another one, on the [`Timeline`](super::timeline::Timeline).
    fn revocations_of(
        &self,
        sessions: &RevokedSessions,
        until: u64,
        now: Moment,
    ) -> Result<Vec<Revocation>, NotRevocable> {
        let longest = |iam: &Iam| iam.policy.session_max_lifetime;
        let until = |second: Option<u64>| second.map_or(until, end_of_second);
        let iams = self.iams.iter();
        let (revocations, unknown): (Vec<_>, _) = match sessions {
            RevokedSessions::One(id) => {
                let longest = iams.map(longest).max().unwrap_or_default();
                let index = |key: &RevocationKey| (RevocationKind::Session, key.session(*id));
                return Ok(self.under_every_key(u64::MAX, now, longest, index));
            }
            RevokedSessions::OfSubject {
                subject,
                begun_until,
            } => {
                let of_iam = |iam: &Iam| {
                    let subject = iam.subject_of(subject.as_str())?;
                    let index = |key: &RevocationKey| key.subject(iam.kind, &iam.issuer, subject);
                    Some(self.under_every_key(until(*begun_until), now, longest(iam), index))
                };
                let revocations = iams.filter_map(of_iam).flatten();
                (revocations.collect(), NotRevocable::UnknownPrefix)
            }
            RevokedSessions::OfIam { iam, begun_until } => {
                let named = |other: &&Iam| iam.as_deref().is_none_or(|name| name == other.name());
                let of_iam = |iam: &Iam| {
                    let index = |key: &RevocationKey| key.iam(iam.kind, &iam.issuer);
                    self.under_every_key(until(*begun_until), now, longest(iam), index)
                };
                let revocations = iams.filter(named).flat_map(of_iam);
                (revocations.collect(), NotRevocable::UnknownIam)
            }
        };
        if revocations.is_empty() {
            return Err(unknown);
        }
        Ok(revocations)
    }

    /// A revocation for each sealing key with which a session may be sealed that is valid for this long: the
    /// key of the session is not known, and the index depends on it.
    fn under_every_key(
        &self,
        begun_until: u64,
        now: Moment,
        longest: Duration,
        index: impl Fn(&RevocationKey) -> RevocationIndex,
    ) -> Vec<Revocation> {
        let sealing = &self.replica.keys.sealing;
        let keys = sealing.key_set();
        // A session from before the lifetime was shortened is valid for this much longer.
        let overlap = sealing.overlap(longest + DIFFERENCE_MAX);
        keys.honoured(now, overlap)
            .map(|key| Revocation::of(index(RevocationKey::of(key)), begun_until, now, longest))
            .collect()
    }
}

/// The time until which logins are revoked by a logout token without a session id, in milliseconds since
/// 1970 on the [`Timeline`](super::timeline::Timeline).
///
/// The time of the token is the IAM's, and that of a login is on the time line; the two may differ. So the
/// time of arrival, on the time line, decides. A login counts from the time at which its credentials were
/// sent: the IAM may have verified them before it issued the token, however late its response comes. A
/// delayed token must not revoke later logins, so the time is earlier by its delay: the seconds for which the token was
/// certainly under way, by the clock that also checks its age.
fn begun_until(delayed: u64, now: u64) -> u64 {
    now.min(end_of_second((now / 1_000).saturating_sub(delayed)))
}

/// The last millisecond of a second.
const fn end_of_second(second: u64) -> u64 {
    second.saturating_mul(1_000).saturating_add(999)
}
