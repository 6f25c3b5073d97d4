//! What ended before its time, as far as this replica knows: sessions of ours, sessions of the
//! IAM's, and all that a subject had until some moment.
//!
//! An entry stays until every session that it ends would have expired anyway, by a clock that may
//! be set back a little; nothing else removes it, least of all a full table: where there is no room,
//! no sessions begin (see [`Revocations::has_room`]). There is one entry for each end, and nothing
//! for the sessions that live.
//!
//! An end is found by its name: a keyed hash, so that a name does not show whose session ended, and
//! cannot be guessed without the key. The key is derived from the key that sealed the session, so
//! replicas that open each other's sessions agree on the names without a further secret.
//!
//! An entry also says whether the other replicas have it. So what still has to be sent to them is
//! bounded by the table itself, and an end is queued once however often it is recorded.

mod entry;
mod queue;
mod revocation;

use std::collections::{HashMap, hash_map};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac};
use base64::Engine as _;
use iam_adapters::Moment;

pub use entry::Delivery;
pub use revocation::{End, Kind, Revocation};

use super::BASE64;
use super::error::{InvalidSession, NotReady};
use super::session::{SealedSession, SessionId};
use entry::{Entry, Source};
use queue::Queue;

/// What an entry is found by.
type Key = (Kind, Name);

/// What became of an end that another replica told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// It is recorded.
    New,
    /// Nothing new in it.
    Known,
    /// All that it ends has expired.
    Past,
    /// No replica says such a thing: it reaches too far into the future.
    Implausible,
}

/// How many entries the table is made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// From here on, expired entries are looked for once a minute.
    pub(super) usual: usize,
    /// From here on, no sessions begin.
    pub(super) most: usize,
}

#[derive(Debug, Default)]
struct Entries {
    by_name: HashMap<Key, Entry>,
    /// Those that the other replicas still have to be given.
    queue: Queue,
    /// The number of entries at which the expired ones are next looked for.
    sweep_at: usize,
    /// When they were last looked for, in seconds since 1970.
    swept_at: u64,
}

/// What ended early.
#[derive(Debug)]
pub struct Revocations {
    entries: RwLock<Entries>,
    room: Room,
    // How many entries there are of each kind: no name is made for a kind that has none.
    sessions: AtomicUsize,
    upstream_sessions: AtomicUsize,
    subjects: AtomicUsize,
    /// How often an end was recorded. Who saw all of them need not look again.
    recorded: AtomicU64,
    /// Whether ends at the other replicas, from before this one started, are still unknown.
    is_catching_up: AtomicBool,
}

impl Default for Revocations {
    fn default() -> Self {
        Self::with_room(ROOM)
    }
}

impl Revocations {
    pub(super) fn with_room(room: Room) -> Self {
        Self {
            entries: RwLock::default(),
            room,
            sessions: AtomicUsize::default(),
            upstream_sessions: AtomicUsize::default(),
            subjects: AtomicUsize::default(),
            recorded: AtomicU64::default(),
            is_catching_up: AtomicBool::default(),
        }
    }

    /// How the session ended; none where it did not, as far as is known here. A second look
    /// through the same names costs nothing while nothing was recorded in between.
    #[must_use]
    pub fn end_of(&self, names: &mut SessionNames<'_>) -> Option<End> {
        let recorded = self.recorded.load(Ordering::Acquire);
        if recorded == names.none_of {
            return None;
        }
        // The names are made before the lock is taken.
        let sought = Kind::ALL.map(|kind| {
            let any = self.of(kind).load(Ordering::Relaxed) > 0;
            any.then(|| (kind, names.of(kind)))
        });
        let entries = self.read();
        let end = sought
            .iter()
            .flatten()
            .filter_map(|key| entries.by_name.get(key))
            .filter(|entry| names.begun_at() <= entry.begun_until)
            .map(|entry| entry.end)
            .max();
        if end.is_none() {
            names.none_of = recorded;
        }
        end
    }

    /// Fails where the session has ended, as far as this replica knows.
    pub(super) fn refuse_ended(&self, names: &mut SessionNames<'_>) -> Result<(), InvalidSession> {
        self.end_of(names).map_or(Ok(()), |end| Err(end.into()))
    }

    /// Fails while sessions may have ended at other replicas of which this one does not know.
    pub(super) fn refuse_catching_up(&self) -> Result<(), NotReady> {
        if self.is_catching_up.load(Ordering::Acquire) {
            return Err(NotReady::CatchingUp);
        }
        Ok(())
    }

    /// Ends at the other replicas are unknown from now on.
    pub(super) fn begin_catching_up(&self) {
        self.is_catching_up.store(true, Ordering::Release);
    }

    /// Ends at the other replicas are known from now on, or need not be. Returns whether they were
    /// unknown.
    pub(super) fn stop_catching_up(&self) -> bool {
        self.is_catching_up.swap(false, Ordering::AcqRel)
    }

    /// Records an end. Nothing takes one back or makes it less.
    pub fn record(&self, revocation: &Revocation, now: Moment) {
        self.note(revocation, Source::Local, now);
    }

    /// Records an end that the other replicas have to learn from this one, and queues it where they
    /// do not have it yet. Returns whether they still wait for it.
    pub fn share(&self, revocation: &Revocation, now: Moment) -> bool {
        self.note(revocation, Source::Shared, now);
        self.is_awaited(revocation)
    }

    /// Records an end that another replica told. There is no bound, since one that is dropped would
    /// let an ended session live on: the number of sessions bounds it.
    pub fn learn(&self, revocation: &Revocation, now: Moment) -> Learned {
        let seconds = now.unix_seconds();
        if revocation.forget_at <= seconds {
            return Learned::Past;
        }
        if !revocation.is_plausible(now) {
            return Learned::Implausible;
        }
        if self.note(revocation, Source::Learned, now) {
            Learned::New
        } else {
            Learned::Known
        }
    }

    /// Whether that changed anything.
    fn note(&self, revocation: &Revocation, source: Source, now: Moment) -> bool {
        let key = (revocation.kind, revocation.name);
        let mut entries = self.write();
        let Entries { by_name, queue, .. } = &mut *entries;
        let count = by_name.len();
        let (changed, queued) = match by_name.entry(key) {
            hash_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                (known.strengthen(revocation, source), known.enqueue())
            }
            hash_map::Entry::Vacant(place) => {
                self.of(revocation.kind).fetch_add(1, Ordering::Relaxed);
                let new = place.insert(Entry::new(revocation, source));
                (true, new.enqueue())
            }
        };
        if queued {
            queue.push(key);
        }
        if !changed {
            return false;
        }
        if by_name.len() > count {
            self.grown(&mut entries, now);
        }
        // Last, so that whoever sees it sees all the rest.
        self.recorded.fetch_add(1, Ordering::Release);
        true
    }

    fn grown(&self, entries: &mut Entries, now: Moment) {
        let count = entries.by_name.len();
        if count >= entries.sweep_at.max(SWEEP_MIN)
            || count >= self.room.usual && is_sweep_due(entries, now)
        {
            self.sweep(entries, now);
        }
        if entries.by_name.len() == self.room.most {
            tracing::error!(
                revocations = count,
                "too many live revocations: no session can begin until some have expired"
            );
        }
    }

    /// Whether the table has room for the ends of further sessions. Where it has none, the gateway
    /// begins no sessions: what bounds the table is the number of sessions that can end.
    pub fn has_room(&self, now: Moment) -> bool {
        if self.count() < self.room.most {
            return true;
        }
        let mut entries = self.write();
        if is_sweep_due(&entries, now) {
            self.sweep(&mut entries, now);
        }
        entries.by_name.len() < self.room.most
    }

    /// How many entries the table is made for.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room.most
    }

    /// Whether the replicas that are connected still have to be given this end.
    pub fn is_awaited(&self, revocation: &Revocation) -> bool {
        let key = (revocation.kind, revocation.name);
        let entries = self.read();
        entries.by_name.get(&key).is_some_and(Entry::is_awaited)
    }

    /// How many ends the other replicas still have to be given, or Redis has to store for them.
    pub fn pending(&self) -> usize {
        self.read().queue.len()
    }

    /// The next ends to offer to Redis, up to so many: first those that were not offered yet, then,
    /// after [`Self::retry_refused`], those that it refused. Until they are settled they are pending.
    pub fn offer(&self, most: usize) -> Vec<Revocation> {
        let mut entries = self.write();
        let Entries { by_name, queue, .. } = &mut *entries;
        let offered = queue.offer(most).filter_map(|key| {
            let entry = by_name.get_mut(&key)?;
            entry.offered();
            Some(entry.told(key))
        });
        offered.collect()
    }

    /// What became of those offered.
    pub fn settle(&self, offered: impl IntoIterator<Item = (Revocation, Delivery)>) {
        let mut entries = self.write();
        let Entries { by_name, queue, .. } = &mut *entries;
        queue.settled();
        for (sent, delivery) in offered {
            let key = (sent.kind, sent.name);
            if let Some(entry) = by_name.get_mut(&key) {
                queue.take_back(key, entry.settle(&sent, delivery));
            }
        }
    }

    /// Queues again what was offered over a connection that is gone, and what it refused.
    pub fn offer_all_again(&self) {
        let mut entries = self.write();
        let Entries { by_name, queue, .. } = &mut *entries;
        for key in queue.all_again() {
            if let Some(entry) = by_name.get_mut(key) {
                entry.offer_again();
            }
        }
    }

    /// Allows what Redis refused to be offered once more.
    pub fn retry_refused(&self) {
        self.write().queue.retry_refused();
    }

    fn sweep(&self, entries: &mut Entries, now: Moment) {
        let seconds = now.unix_seconds();
        let before = entries.by_name.len();
        entries.by_name.retain(|(kind, _), entry| {
            let keep = entry.forget_at > seconds;
            if !keep {
                self.of(*kind).fetch_sub(1, Ordering::Relaxed);
            }
            keep
        });
        let by_name = &entries.by_name;
        entries.queue.retain(|key| by_name.contains_key(key));
        let count = by_name.len();
        // Doubling makes the sweeps cost a constant for each entry made.
        entries.sweep_at = count * 2;
        entries.swept_at = seconds;
        if before >= self.room.most && count < self.room.most {
            tracing::info!(revocations = count, "sessions can begin again");
        }
    }

    /// How many ends are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.read().by_name.len()
    }

    fn of(&self, kind: Kind) -> &AtomicUsize {
        match kind {
            Kind::Session => &self.sessions,
            Kind::UpstreamSession => &self.upstream_sessions,
            Kind::Subject => &self.subjects,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_sweep_due(entries: &Entries, now: Moment) -> bool {
    now.unix_seconds() >= entries.swept_at.saturating_add(SWEEP_PAUSE)
}

/// Fewer entries than this are not worth a sweep.
const SWEEP_MIN: usize = 1024;

const ROOM: Room = Room {
    usual: 1_000_000,
    most: 3_500_000,
};

/// How often, in seconds, expired entries are looked for where there are more than usual.
const SWEEP_PAUSE: u64 = 60;

/// Sets these keys apart from whatever else may ever be derived from a sealing key (RFC 5869).
const PURPOSE: &[u8] = b"auth-gateway names of revocations 1";

/// Half of HMAC-SHA256: nobody makes two of these alike, or one that hits another's.
const NAME_LEN: usize = 16;

/// The name of an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name([u8; NAME_LEN]);

impl Name {
    /// Reads what [`Name::encode`] wrote.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let mut bits = [0; NAME_LEN];
        let length = BASE64.decode_slice(text, &mut bits).ok()?;
        (length == bits.len()).then_some(Self(bits))
    }

    /// The name as 22 characters of base64url (RFC 4648 section 5), unpadded.
    #[must_use]
    pub fn encode(&self) -> String {
        BASE64.encode(self.0)
    }
}

/// Whoever can read a log should not be able to follow one session through it.
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Name([REDACTED])")
    }
}

/// What makes names for the sessions that one sealing key sealed.
#[derive(Clone)]
pub struct RevocationKey(hmac::Key);

impl RevocationKey {
    /// Derives the key from the sealing key's secret bytes.
    ///
    /// # Errors
    ///
    /// [`Unspecified`] where the library fails; no secret makes it do so.
    pub fn derive(sealing_secret: &[u8]) -> Result<Self, Unspecified> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]);
        let derived = salt.extract(sealing_secret);
        let derived = derived.expand(&[PURPOSE], hmac::HMAC_SHA256)?;
        Ok(Self(derived.into()))
    }

    /// The name of one session of ours.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Name {
        self.name(Kind::Session, [id.as_bytes()])
    }

    /// The name of a session of the IAM's, by the IAM's own id of it.
    #[must_use]
    pub fn upstream_session(&self, adapter: &str, issuer: &str, id: &str) -> Name {
        let parts = [adapter, issuer, id].map(str::as_bytes);
        self.name(Kind::UpstreamSession, parts)
    }

    /// The name of everything that one subject has.
    #[must_use]
    pub fn subject(&self, adapter: &str, issuer: &str, subject: &str) -> Name {
        let parts = [adapter, issuer, subject].map(str::as_bytes);
        self.name(Kind::Subject, parts)
    }

    /// Each part after its length, all of them after the kind: no two things have one name.
    fn name<const N: usize>(&self, kind: Kind, parts: [&[u8]; N]) -> Name {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&[kind.tag()]);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        let mut name = [0; NAME_LEN];
        name.iter_mut()
            .zip(tag.as_ref())
            .for_each(|(to, from)| *to = *from);
        Name(name)
    }
}

impl fmt::Debug for RevocationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RevocationKey([REDACTED])")
    }
}

/// The names under which a session may have ended, each made when it is first needed.
pub struct SessionNames<'s> {
    key: &'s RevocationKey,
    id: SessionId,
    session: &'s SealedSession<'s>,
    made: [Option<Name>; Kind::ALL.len()],
    /// How many ends had been recorded when none of them was this session's.
    none_of: u64,
}

impl<'s> SessionNames<'s> {
    /// The names of a session that was opened with the sealing key from which `key` comes.
    #[must_use]
    pub fn new(key: &'s RevocationKey, id: SessionId, session: &'s SealedSession<'s>) -> Self {
        Self {
            key,
            id,
            session,
            made: [None; Kind::ALL.len()],
            none_of: 0,
        }
    }

    /// When the session's login began, in seconds since 1970.
    fn begun_at(&self) -> u64 {
        self.session.iat
    }

    fn of(&mut self, kind: Kind) -> Name {
        if let Some(Some(name)) = self.made.get(kind as usize) {
            return *name;
        }
        tracing::trace!(?kind, "look up a revocation");
        let session = self.session;
        let name = match kind {
            Kind::Session => self.key.session(self.id),
            Kind::UpstreamSession => {
                self.key
                    .upstream_session(&session.iam, &session.iss, &session.usid)
            }
            Kind::Subject => self.key.subject(&session.iam, &session.iss, &session.sub),
        };
        if let Some(made) = self.made.get_mut(kind as usize) {
            *made = Some(name);
        }
        name
    }
}

#[cfg(test)]
mod tests;
