//! What the gateway knows from the IAM: how old it may be, and introspection when it is older.
//!
//! Two caches: whether the session is alive, by the hash of its whole token; and the permissions of
//! its user, by the hash of adapter, issuer and subject. A value is written only from a response of
//! the IAM, with the time at which the request was *sent*: it may lack what changed afterwards.
//! Faults are never cached, and no part of a client's request is part of a value.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use iam_adapters::{
    Clock, IamAdapter, IamError, Introspection, Moment, Permissions, UpstreamSession,
};
use moka::sync::Cache;

use super::error::{GatewayError, InvalidSession};
use super::revocations::{Revocation, Revocations};
use super::single_flight::{Admission, SingleFlight};

type Digest = [u8; SHA256_OUTPUT_LEN];

/// What an introspection showed; `None`: the session ended.
type Answer = Result<Option<Arc<Permissions>>, IamError>;

/// How old knowledge may be when a token is signed on it, and how much of it is kept.
#[derive(Debug, Clone, Copy)]
pub struct Freshness {
    /// For "the session is alive".
    pub liveness: Duration,
    /// For "the user may do this".
    pub permissions: Duration,
    /// How much older both may be while the IAM does not answer. Zero: not at all.
    pub stale_if_error: Duration,
    /// The bound of the two caches together, in bytes.
    pub max_bytes: u64,
}

/// The source of the knowledge that an exchange used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The caches.
    Hit,
    /// An introspection that this exchange started.
    Miss,
    /// An introspection that was already in flight.
    Coalesced,
    /// Caches older than the freshness, because the IAM did not respond (`stale_if_error`).
    Stale,
}

impl Source {
    /// Every source there is.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Coalesced, Self::Stale];

    /// The source's name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Coalesced => "coalesced",
            Self::Stale => "stale",
        }
    }
}

/// The keys of a session and its subject in the caches.
#[derive(Clone, Copy)]
pub struct Fingerprint {
    session: Digest,
    subject: Digest,
}

/// An introspection of one session.
#[derive(Clone)]
pub struct Inquiry {
    /// Its keys in the caches.
    pub fingerprint: Fingerprint,
    /// The revocation to record where the IAM reports the session as inactive.
    pub if_over: Revocation,
    /// The session at the IAM.
    pub upstream: UpstreamSession,
}

/// How old a value may be.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// A little less than its freshness, by a different amount for each key: what was learned at one
    /// moment, such as the end of an outage, must not expire at one moment.
    Spread,
    /// Its freshness.
    Promised,
    /// Its freshness and `stale_if_error`.
    Stale,
}

#[derive(Clone)]
struct Known {
    asked_at: Moment,
    permissions: Arc<Permissions>,
}

/// The two caches, and the introspections in flight.
pub struct Knowledge {
    iam: Arc<dyn IamAdapter>,
    clock: Arc<dyn Clock>,
    revocations: Arc<Revocations>,
    freshness: Freshness,
    /// SHA-256 begun with adapter and issuer; the subject completes it.
    subjects: Context,
    liveness: Cache<Digest, Moment>,
    permissions: Cache<Digest, Known>,
    in_flight: SingleFlight<Digest, Answer>,
    /// Responses to requests sent then or before are not trusted any more; as
    /// [`Moment::monotonic`], in nanoseconds.
    distrusted_until: AtomicU64,
}

/// What an entry costs beside its key and value: moka's own bookkeeping. Measured as resident
/// memory from 100,000 to 800,000 entries: 318 bytes while the cache fills, 343 once it is full.
const ENTRY_OVERHEAD: usize = 344;

/// What one allocation costs beside its content, on average.
const ALLOCATION_OVERHEAD: usize = 16;

impl Knowledge {
    /// Empty caches.
    pub fn new(
        iam: Arc<dyn IamAdapter>,
        clock: Arc<dyn Clock>,
        revocations: Arc<Revocations>,
        freshness: Freshness,
    ) -> Self {
        let mut subjects = Context::new(&SHA256);
        for part in [iam.name(), iam.issuer()] {
            subjects.update(&part.len().to_be_bytes());
            subjects.update(part.as_bytes());
        }
        // The lifetimes of the caches only save memory; every look-up checks the age.
        let liveness = Cache::builder()
            .max_capacity(freshness.max_bytes / 2)
            .weigher(|_, _| weight(0))
            .time_to_live(freshness.liveness + freshness.stale_if_error)
            .build();
        let permissions = Cache::builder()
            .max_capacity(freshness.max_bytes / 2)
            .weigher(|_, known: &Known| {
                let held = &known.permissions;
                // One allocation for each name, one for the list of them, one for the `Arc` with
                // its two counts and the list's address and length.
                let arc = size_of::<[usize; 2]>() + size_of::<Permissions>();
                weight(held.heap_size() + arc + ALLOCATION_OVERHEAD * (held.len() + 2))
            })
            .time_to_live(freshness.permissions + freshness.stale_if_error)
            .build();
        Self {
            iam,
            clock,
            revocations,
            freshness,
            subjects,
            liveness,
            permissions,
            in_flight: SingleFlight::default(),
            distrusted_until: AtomicU64::new(0),
        }
    }

    /// The keys of a session, by its whole token, and of its subject.
    #[must_use]
    pub fn fingerprint(&self, session_token: &str, subject: &str) -> Fingerprint {
        let mut context = self.subjects.clone();
        context.update(subject.as_bytes());
        Fingerprint {
            session: bytes_of(&digest(&SHA256, session_token.as_bytes())),
            subject: bytes_of(&context.finish()),
        }
    }

    /// Permissions that are fresh enough to sign a token with. Does not call the IAM.
    #[must_use]
    pub fn fresh(&self, of: &Fingerprint, now: Moment) -> Option<Arc<Permissions>> {
        self.known(of, now, Until::Spread)
    }

    fn known(&self, of: &Fingerprint, now: Moment, until: Until) -> Option<Arc<Permissions>> {
        let alive_at = self.liveness.get(&of.session)?;
        let age_max = self.age_max(self.freshness.liveness, &of.session, until);
        if now.since(alive_at) >= age_max || self.distrusts(alive_at) {
            return None;
        }
        let known = self.permissions.get(&of.subject)?;
        let age_max = self.age_max(self.freshness.permissions, &of.subject, until);
        (now.since(known.asked_at) < age_max).then_some(known.permissions)
    }

    fn age_max(&self, freshness: Duration, of: &Digest, until: Until) -> Duration {
        match until {
            Until::Spread => spread(freshness, of),
            Until::Promised => freshness,
            Until::Stale => freshness + self.freshness.stale_if_error,
        }
    }

    /// From now on, what the IAM reported about sessions up to this moment is not trusted any more,
    /// however fresh it is and whether the IAM can be called or not: an end that another replica
    /// recorded may have been missed.
    pub fn distrust_until(&self, moment: Moment) {
        let nanos = nanos(moment);
        self.distrusted_until.fetch_max(nanos, Ordering::Release);
    }

    fn distrusts(&self, asked_at: Moment) -> bool {
        let until = self.distrusted_until.load(Ordering::Acquire);
        // Zero: nothing was missed.
        until > 0 && nanos(asked_at) <= until
    }

    /// Records that the IAM, called at `asked_at`, reported the session as active, and the
    /// permissions of its user, where the response had them.
    pub fn learn(&self, of: &Fingerprint, asked_at: Moment, permissions: Option<Arc<Permissions>>) {
        self.liveness.insert(of.session, asked_at);
        let Some(permissions) = permissions else {
            return;
        };
        // Two sessions of one user may be introspected at once, and the older response come last.
        self.permissions.entry(of.subject).and_upsert_with(|known| {
            match known.map(moka::Entry::into_value) {
                Some(newer) if newer.asked_at.monotonic > asked_at.monotonic => newer,
                _ => Known {
                    asked_at,
                    permissions,
                },
            }
        });
    }
}

impl Knowledge {
    /// Introspects a session, or joins an introspection of it that is in flight.
    ///
    /// The introspection goes on when the client that caused it disconnects, so clients that
    /// disconnect and retry cause no further calls.
    ///
    /// # Errors
    ///
    /// [`InvalidSession::Ended`] where the IAM reports the session as inactive, otherwise a fault.
    pub async fn ask(
        self: &Arc<Self>,
        inquiry: Inquiry,
        now: Moment,
    ) -> Result<(Arc<Permissions>, Source), GatewayError> {
        let (asked_at, result) = self.introspect(&inquiry, now).await;
        if result.is_ok() && self.distrusts(asked_at) {
            // Ends may have been missed during the call. Only one more time: an unstable connection
            // to the other replicas must not delay clients.
            let (_, result) = self.introspect(&inquiry, self.clock.now()).await;
            return result;
        }
        result
    }

    /// The result, and when the IAM was called for it.
    async fn introspect(
        self: &Arc<Self>,
        inquiry: &Inquiry,
        now: Moment,
    ) -> (Moment, Result<(Arc<Permissions>, Source), GatewayError>) {
        let (call, source) = match self.join_or_introspect(inquiry, now) {
            Admission::Done(permissions) => return (now, Ok((permissions, Source::Coalesced))),
            Admission::Joined(call) => (call, Source::Coalesced),
            Admission::Started(call) => (call, Source::Miss),
        };
        let asked_at = call.began;
        let result = match call.result().await {
            Ok(Ok(Some(permissions))) => Ok((permissions, source)),
            Ok(Ok(None)) => Err(InvalidSession::Ended.into()),
            Ok(Err(fault)) => self
                .fallback(&inquiry.fingerprint, &fault)
                .ok_or_else(|| fault.into()),
            Err(lost) => Err(lost.into()),
        };
        (asked_at, result)
    }

    /// What may replace the result where the IAM failed. By the time now: what was fresh enough when
    /// the request arrived may be too old.
    fn fallback(
        &self,
        fingerprint: &Fingerprint,
        fault: &IamError,
    ) -> Option<(Arc<Permissions>, Source)> {
        let now = self.clock.now();
        // The call was made before the freshness ended, which has not ended yet.
        if let Some(permissions) = self.known(fingerprint, now, Until::Promised) {
            return Some((permissions, Source::Hit));
        }
        is_unanswered(fault)
            .then(|| self.known(fingerprint, now, Until::Stale))
            .flatten()
            .map(|permissions| (permissions, Source::Stale))
    }

    fn join_or_introspect(
        self: &Arc<Self>,
        inquiry: &Inquiry,
        now: Moment,
    ) -> Admission<Answer, Arc<Permissions>> {
        let max_age = self.freshness.liveness.min(self.freshness.permissions);
        self.in_flight.join_or_start(
            inquiry.fingerprint.session,
            now,
            |asked_at| now.since(asked_at) < max_age && !self.distrusts(asked_at),
            || self.fresh(&inquiry.fingerprint, now),
            || {
                let (knowledge, inquiry) = (Arc::clone(self), inquiry.clone());
                async move {
                    let answer = knowledge.iam.introspect(&inquiry.upstream).await;
                    answer.and_then(|introspection| knowledge.record(&inquiry, now, introspection))
                }
            },
        )
    }

    fn record(&self, inquiry: &Inquiry, asked_at: Moment, introspection: Introspection) -> Answer {
        match introspection {
            // An adapter that confuses responses must not write the knowledge of another subject.
            Introspection::Active { subject, .. } if subject != inquiry.upstream.subject => Err(
                IamError::Unreadable("an answer about another subject".to_owned()),
            ),
            Introspection::Active { permissions, .. } => {
                let permissions = Arc::new(permissions);
                self.learn(
                    &inquiry.fingerprint,
                    asked_at,
                    Some(Arc::clone(&permissions)),
                );
                Ok(Some(permissions))
            }
            Introspection::Inactive => {
                self.revocations.record(&inquiry.if_over, self.clock.now());
                self.liveness.invalidate(&inquiry.fingerprint.session);
                Ok(None)
            }
        }
    }
}

impl fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Knowledge")
            .field("freshness", &self.freshness)
            .finish_non_exhaustive()
    }
}

/// Whether the IAM gave no response, so that its last one may still be used. A response that cannot
/// be understood is a response.
fn is_unanswered(fault: &IamError) -> bool {
    match fault {
        IamError::Unreachable(_)
        | IamError::TimedOut(_)
        | IamError::Failed(_)
        | IamError::Throttled { .. }
        | IamError::Saturated
        | IamError::CircuitOpen => true,
        IamError::Refused(_) | IamError::Unreadable(_) | IamError::Misconfigured { .. } => false,
    }
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.monotonic.as_nanos()).unwrap_or(u64::MAX)
}

/// Between 90 % and 100 % of a freshness, always the same for one key. Keys are hashes, so their
/// first byte spreads them evenly.
fn spread(freshness: Duration, of: &Digest) -> Duration {
    let [first, ..] = of;
    freshness.saturating_sub(freshness / (10 * 256) * u32::from(*first))
}

fn weight(heap: usize) -> u32 {
    let bytes = size_of::<Digest>() + size_of::<Known>() + ENTRY_OVERHEAD + heap;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn bytes_of(digest: &aws_lc_rs::digest::Digest) -> Digest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests;
