//! The revocations that this replica knows: of gateway sessions, of IAM sessions, and of all
//! sessions of a subject or of an IAM that began before a time.
//!
//! An entry is removed when every session that it ends has expired, also by a clock that is a little
//! behind. A full table removes no other entry. Instead, no session begins (see
//! [`Revocations::has_room`]). Active sessions have no entry.
//!
//! A revocation is found by its id, a keyed hash. So an id does not identify the session, and no
//! one can compute it without the key. The key is derived from the sealing key of the session, so
//! replicas that open each other's sessions compute the same ids without a further secret.

mod record;
mod revocation;

use std::collections::{HashMap, hash_map};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use aws_lc_rs::hmac;
use iam_adapters::Moment;
use parking_lot::RwLock;

pub use revocation::{Cause, Revocation, RevocationKind};

use super::error::InvalidSession;
use super::keys::{DerivationKey, DerivedFrom, Key as _, SealingKey};
use super::stream_mac_key::{StreamMacKey, truncated};
use crate::sealed_session::SealedSession;
use crate::session_id::SessionId;
use record::{Insertion, RecordOrigin, RevocationRecord};

/// Finds a revocation.
pub type RevocationIndex = (RevocationKind, RevocationId);

/// Ready when the other replicas have the revocation, or when waiting longer would delay a client
/// too much. A caller that need not wait drops it: the revocation is sent all the same.
pub type Delivered = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Publishes revocations to the other replicas.
pub trait RevocationPublisher: fmt::Debug + Send + Sync {
    /// Publishes a revocation if `is_unpublished`: the others do not have its latest form, nor was that
    /// sent. If it cannot be sent now, it is sent later. Until then, the freshness of cached data bounds
    /// how long other replicas accept the session.
    fn publish(&self, revocation: &Revocation, is_unpublished: bool) -> Delivered;

    /// Whether the revocation is not sent yet.
    fn is_pending(&self, revocation: &Revocation) -> bool;

    /// How many revocations are not sent yet.
    fn pending(&self) -> usize;
}

#[derive(Debug, Default)]
struct Entries {
    by_index: HashMap<RevocationIndex, RevocationRecord>,
    /// How many entries the table of this size holds.
    room: usize,
    /// When expired entries were last removed, in seconds since 1970.
    swept_at: u64,
}

impl Entries {
    /// Makes room for another entry.
    ///
    /// What is removed from a hash table leaves marks behind, which take up room like entries. A table that has no room
    /// left and is more than half full doubles, although it never has more entries. So here it is copied without the
    /// marks, unless they are so few that it would be copied again and again.
    fn make_room(&mut self) {
        let (count, room) = (self.by_index.len(), self.by_index.capacity());
        self.room = self.room.max(room);
        if count == room && self.room - count > self.room / 32 {
            let entries = std::mem::take(&mut self.by_index);
            self.by_index.reserve(count + 1);
            self.by_index.extend(entries);
            self.room = self.by_index.capacity();
        }
    }
}

/// At this number of entries, no session can begin.
const CAPACITY: usize = 3_500_000;

/// The table of revocations.
#[derive(Debug)]
pub struct Revocations {
    entries: RwLock<Entries>,
    capacity: usize,
    /// The number of entries of each [`RevocationKind`]. A kind without entries needs no id. A relaxed read suffices:
    /// what was recorded before a look-up is counted, and the lock orders the entries.
    counts: [AtomicUsize; RevocationKind::ALL.len()],
    /// Whether revocations of the other replicas from before the start are still unknown.
    is_catching_up: AtomicBool,
    /// Revocations of the other replicas may have been missed until then, in nanoseconds of
    /// [`Moment::monotonic`]; 0: none.
    missed_until: AtomicU64,
}

impl Revocations {
    /// An empty table. If it `is_shared` with other replicas, their revocations are unknown.
    #[must_use]
    pub fn new(is_shared: bool) -> Self {
        Self {
            entries: RwLock::default(),
            capacity: CAPACITY,
            counts: Default::default(),
            is_catching_up: is_shared.into(),
            missed_until: AtomicU64::default(),
        }
    }

    /// Why the session was revoked; `None` if no revocation is known here.
    pub(super) fn cause_of(&self, ids: &SessionRevocationIds<'_>) -> Option<Cause> {
        // The ids are computed before the lock is taken.
        let keys = RevocationKind::ALL.map(|kind| {
            let any = self.of(kind).load(Ordering::Relaxed) > 0;
            any.then(|| ids.of(kind))
        });
        let entries = self.entries.read();
        keys.iter()
            .flatten()
            .filter_map(|key| entries.by_index.get(key))
            .filter(|entry| ids.begun_at() <= entry.begun_until())
            .map(|entry| entry.cause)
            .max()
    }

    /// Fails if this replica knows a revocation of the session.
    pub(super) fn refuse_revoked(
        &self,
        ids: &SessionRevocationIds<'_>,
    ) -> Result<(), InvalidSession> {
        self.cause_of(ids).map_or(Ok(()), |cause| Err(cause.into()))
    }

    /// Whether revocations of the other replicas may be unknown here.
    pub fn is_catching_up(&self) -> bool {
        self.is_catching_up.load(Ordering::Acquire)
    }

    /// This replica has all revocations of the others again, and receives further ones from now on.
    /// Some may have been missed, so cached data about sessions from before is not used, even if it is
    /// fresh or the IAM cannot be called.
    pub fn initial_sync_done(&self, now: Moment) {
        let nanos = nanos(now);
        self.missed_until.fetch_max(nanos, Ordering::Release);
        self.serve_without_catching_up();
    }

    /// Lets access tokens be issued from now on although revocations of the other replicas are unknown.
    /// Returns whether that was the reason that none were issued.
    ///
    /// Only for an IAM that holds the sessions: it reports those as inactive whose logout it
    /// confirmed. A session is accepted whose logout failed there, or that an operator revoked.
    pub fn serve_without_catching_up(&self) -> bool {
        self.is_catching_up.swap(false, Ordering::AcqRel)
    }

    /// Whether a revocation may have been missed that an answer of the IAM to a request of this moment lacks.
    pub(super) fn missed_since(&self, requested_at: Moment) -> bool {
        let until = self.missed_until.load(Ordering::Acquire);
        until > 0 && nanos(requested_at) <= until
    }

    pub(super) fn contains(&self, index: RevocationIndex) -> bool {
        self.entries.read().by_index.contains_key(&index)
    }

    /// Records a revocation. Nothing cancels or weakens it.
    pub fn record(&self, revocation: &Revocation, now: Moment) {
        self.insert(revocation, RecordOrigin::Local, now);
    }

    /// Records a revocation that is published to the other replicas. Returns whether it must be sent: they have nothing of it, or
    /// an earlier form.
    pub fn record_published(&self, revocation: &Revocation, now: Moment) -> bool {
        self.insert(revocation, RecordOrigin::Published, now)
            .is_unpublished
    }

    /// Applies a revocation that another replica sent, unless every session that it ends has expired. Returns
    /// whether it changed the table. It is recorded even if the table is full: otherwise the revoked session
    /// would be accepted. The number of sessions bounds the table.
    pub fn apply_remote(&self, revocation: &Revocation, now: Moment) -> bool {
        revocation.forget_at > now.unix_seconds()
            && self.insert(revocation, RecordOrigin::Remote, now).is_change
    }

    fn insert(&self, revocation: &Revocation, origin: RecordOrigin, now: Moment) -> Insertion {
        let entries = &mut *self.entries.write();
        entries.make_room();
        match entries.by_index.entry(revocation.index()) {
            hash_map::Entry::Occupied(mut known) => known.get_mut().merge(revocation, origin),
            hash_map::Entry::Vacant(place) => {
                self.of(revocation.kind).fetch_add(1, Ordering::Relaxed);
                place.insert(RevocationRecord::new(revocation, origin));
                self.after_insert(entries, now);
                Insertion::NEW
            }
        }
    }

    fn after_insert(&self, entries: &mut Entries, now: Moment) {
        if is_sweep_due(entries, now) {
            self.sweep(entries, now);
        }
        if entries.by_index.len() == self.capacity {
            tracing::error!(
                revocations = self.capacity,
                "too many live revocations: no session can begin until some have expired"
            );
        }
    }

    /// Whether the table has room for the revocations of further sessions. If not, the gateway begins
    /// no sessions: the number of sessions is what bounds the table.
    pub fn has_room(&self, now: Moment) -> bool {
        self.is_below(self.capacity, &RevocationKind::ALL, now)
    }

    /// Whether the table has room for what IAMs report. They may fill a half of it: an IAM can report
    /// sessions that do not exist, and must not stop logins.
    pub(super) fn has_room_for_reports(&self, now: Moment) -> bool {
        let reported = [RevocationKind::UpstreamSession, RevocationKind::Subject];
        self.is_below(self.capacity / 2, &reported, now)
    }

    /// Whether there are fewer entries of these kinds, perhaps after expired ones are removed.
    fn is_below(&self, max: usize, kinds: &[RevocationKind], now: Moment) -> bool {
        let is_below = || {
            let counts = kinds.iter().map(|kind| self.of(*kind));
            let count: usize = counts.map(|count| count.load(Ordering::Relaxed)).sum();
            count < max
        };
        is_below() || {
            let mut entries = self.entries.write();
            if is_sweep_due(&entries, now) {
                self.sweep(&mut entries, now);
            }
            is_below()
        }
    }

    /// The number of entries at which no session can begin.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The revocation as the other replicas get it, in its latest form.
    #[must_use]
    pub fn get(&self, index: &RevocationIndex) -> Option<Revocation> {
        let entries = self.entries.read();
        let entry = entries.by_index.get(index);
        entry.map(|entry| entry.replicated(*index))
    }

    /// Whether this is the latest form of a revocation.
    #[must_use]
    pub fn is_latest(&self, revocation: &Revocation) -> bool {
        let entries = self.entries.read();
        let entry = entries.by_index.get(&revocation.index());
        entry.is_some_and(|entry| entry.is(revocation))
    }

    /// The live revocations that the other replicas have or get. A copy: exchanges wait for a revocation that waits for
    /// the lock, so it is held for nothing else.
    pub fn shared(&self, now: Moment) -> Vec<RevocationIndex> {
        let seconds = now.unix_seconds();
        let entries = self.entries.read();
        let mut shared = Vec::with_capacity(entries.by_index.len());
        let entries = entries.by_index.iter();
        let entries = entries.filter(|(_, entry)| entry.is_shared && entry.forget_at() > seconds);
        shared.extend(entries.map(|(index, _)| *index));
        shared
    }

    fn sweep(&self, entries: &mut Entries, now: Moment) {
        let seconds = now.unix_seconds();
        let before = entries.by_index.len();
        entries.by_index.retain(|(kind, _), entry| {
            let keep = entry.forget_at() > seconds;
            if !keep {
                self.of(*kind).fetch_sub(1, Ordering::Relaxed);
            }
            keep
        });
        let count = entries.by_index.len();
        // After a peak.
        entries.by_index.shrink_to(2 * count);
        entries.swept_at = seconds;
        if before >= self.capacity && count < self.capacity {
            tracing::info!(revocations = count, "sessions can begin again");
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.read().by_index.len()
    }

    /// The number of entries of this kind.
    const fn of(&self, kind: RevocationKind) -> &AtomicUsize {
        let [sessions, upstream_sessions, subjects, iams] = &self.counts;
        match kind {
            RevocationKind::Session => sessions,
            RevocationKind::UpstreamSession => upstream_sessions,
            RevocationKind::Subject => subjects,
            RevocationKind::Iam => iams,
        }
    }
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.monotonic.as_nanos()).unwrap_or(u64::MAX)
}

fn is_sweep_due(entries: &Entries, now: Moment) -> bool {
    // Also if the clock was set back.
    now.unix_seconds().abs_diff(entries.swept_at) >= SWEEP_PAUSE
}

/// The shortest time between two removals of expired entries, in seconds.
const SWEEP_PAUSE: u64 = 60;

/// Separate these keys from others that are derived from a sealing key (RFC 5869).
const NAMES: &[u8] = b"auth-gateway names of revocations 1";
const ENTRIES: &[u8] = b"auth-gateway entries of revocations 1";

/// The length of a [`RevocationId`]: half of HMAC-SHA256, which makes a collision infeasible.
pub const REVOCATION_ID_LEN: usize = 16;

/// The id of a revocation. Its `Debug` form hides it: the log must not show which lines belong to one session.
#[derive(Clone, Copy, derive_more::Debug, PartialEq, Eq, Hash)]
#[debug("RevocationId([REDACTED])")]
pub struct RevocationId([u8; REVOCATION_ID_LEN]);

impl RevocationId {
    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; REVOCATION_ID_LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; REVOCATION_ID_LEN] {
        &self.0
    }
}

/// Computes the ids of the revocations of sessions of one sealing key, and authenticates the entries that
/// replicas share.
#[derive(Clone, derive_more::Debug)]
#[debug("RevocationKey([REDACTED])")]
pub struct RevocationKey {
    ids: hmac::Key,
    entries: StreamMacKey,
}

impl RevocationKey {
    /// The key for the sessions of a sealing key, which keeps it.
    #[must_use]
    pub fn of(key: &SealingKey) -> &Arc<Self> {
        key.derived()
    }

    /// Derives it.
    #[must_use]
    pub fn derive(key: &DerivationKey) -> Self {
        Self {
            ids: key.derive_hmac_key(NAMES),
            entries: StreamMacKey::new(key.derive_hmac_key(ENTRIES)),
        }
    }

    /// Authenticates the entries that replicas share.
    #[must_use]
    pub const fn entries(&self) -> &StreamMacKey {
        &self.entries
    }

    /// The id of the revocation of a gateway session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> RevocationId {
        self.id(RevocationKind::Session, [id.as_bytes()])
    }

    /// The revocation of an IAM session, by the IAM's session id.
    #[must_use]
    pub fn upstream_session(&self, adapter: &str, issuer: &str, id: &str) -> RevocationIndex {
        self.index(RevocationKind::UpstreamSession, [adapter, issuer, id])
    }

    /// The record of a used logout token. No IAM session has it.
    #[must_use]
    pub fn logout_token(&self, adapter: &str, issuer: &str, jti: &str) -> RevocationIndex {
        let parts = [adapter, issuer, jti, "logout token"];
        self.index(RevocationKind::UpstreamSession, parts)
    }

    /// The revocation of all sessions of a subject.
    #[must_use]
    pub fn subject(&self, adapter: &str, issuer: &str, subject: &str) -> RevocationIndex {
        self.index(RevocationKind::Subject, [adapter, issuer, subject])
    }

    /// The revocation of all sessions of an IAM.
    #[must_use]
    pub fn iam(&self, adapter: &str, issuer: &str) -> RevocationIndex {
        self.index(RevocationKind::Iam, [adapter, issuer])
    }

    fn index<const N: usize>(&self, kind: RevocationKind, parts: [&str; N]) -> RevocationIndex {
        (kind, self.id(kind, parts.map(str::as_bytes)))
    }

    /// The kind and the length before each part make the input unambiguous.
    fn id<const N: usize>(&self, kind: RevocationKind, parts: [&[u8]; N]) -> RevocationId {
        let mut context = hmac::Context::with_key(&self.ids);
        context.update(&[kind as u8]);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        RevocationId(truncated(&context.sign()))
    }
}

impl DerivedFrom<SealingKey> for RevocationKey {
    fn derived_from(key: &SealingKey) -> Self {
        Self::derive(key.derivation_key())
    }
}

/// The ids of the revocations that may end a session, each computed when it is needed.
pub(super) struct SessionRevocationIds<'s> {
    key: &'s RevocationKey,
    id: SessionId,
    session: &'s SealedSession<'s>,
}

impl<'s> SessionRevocationIds<'s> {
    /// Those of a session that was opened with the sealing key from which `key` comes.
    pub(super) fn new(
        key: &'s RevocationKey,
        id: SessionId,
        session: &'s SealedSession<'s>,
    ) -> Self {
        Self { key, id, session }
    }

    /// When the session's login began, in milliseconds since 1970.
    fn begun_at(&self) -> u64 {
        self.session.iat
    }

    fn of(&self, kind: RevocationKind) -> RevocationIndex {
        tracing::trace!(?kind, "look up a revocation");
        let SealedSession {
            iam,
            iss,
            sub,
            usid,
            ..
        } = self.session;
        match kind {
            RevocationKind::Session => (kind, self.key.session(self.id)),
            RevocationKind::UpstreamSession => self.key.upstream_session(iam, iss, usid),
            RevocationKind::Subject => self.key.subject(iam, iss, sub),
            RevocationKind::Iam => self.key.iam(iam, iss),
        }
    }
}

#[cfg(test)]
mod tests;
