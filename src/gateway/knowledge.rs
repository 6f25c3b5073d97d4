//! What the gateway learned from the IAM, how old it may be, and asking again.
//!
//! Two caches: is the session alive, by the hash of its whole token; what may its user do, by the
//! hash of adapter, issuer and subject. A value is written only from an answer of the IAM, with
//! the moment at which the question was *asked*: whatever changed afterwards may not be in it.
//! Faults are never in a cache, and no part of a request is ever part of a value.

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

/// Where the knowledge came from that an exchange was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Fresh in the caches.
    Hit,
    /// The IAM was asked.
    Miss,
    /// The answer to somebody else's question, asked lately enough, was waited for.
    Coalesced,
    /// The IAM did not answer, and `stale_if_error` allows what was known before.
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

/// The names under which a session and its subject are known in the caches.
#[derive(Clone, Copy)]
pub struct Fingerprint {
    session: Digest,
    subject: Digest,
}

/// A question to the IAM about one session.
#[derive(Clone)]
pub struct Inquiry {
    /// Its names in the caches.
    pub fingerprint: Fingerprint,
    /// What is recorded where the IAM says that it ended.
    pub if_over: Revocation,
    /// What the adapter asks about.
    pub upstream: UpstreamSession,
}

/// How old what is known may be.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// Some of its freshness less than all: what was learned at one moment, such as the end of an
    /// outage, must not be asked for again at one moment.
    Spread,
    /// All of its freshness.
    Promised,
    /// As much more as a silent IAM allows.
    Stale,
}

#[derive(Clone)]
struct Known {
    asked_at: Moment,
    permissions: Arc<Permissions>,
}

/// The two caches, and the questions on their way.
pub struct Knowledge {
    iam: Arc<dyn IamAdapter>,
    clock: Arc<dyn Clock>,
    revocations: Arc<Revocations>,
    freshness: Freshness,
    /// SHA-256 begun with adapter and issuer; the subject completes it.
    subjects: Context,
    liveness: Cache<Digest, Moment>,
    permissions: Cache<Digest, Known>,
    questions: SingleFlight<Digest, Answer>,
    /// What was asked then or before is not believed any more; as [`Moment::monotonic`], in
    /// nanoseconds.
    distrusted_until: AtomicU64,
}

/// What an entry costs beside its key and value: moka's own bookkeeping. Measured as resident
/// memory from 100,000 to 800,000 entries: 318 bytes while the cache fills, 343 once it is full.
const ENTRY_OVERHEAD: usize = 344;

/// What one allocation costs beside its content, on average.
const ALLOCATION_OVERHEAD: usize = 16;

impl Knowledge {
    /// Knows nothing yet.
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
        // The caches' own lifetimes only save memory; every reading looks at the age again.
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
            questions: SingleFlight::default(),
            distrusted_until: AtomicU64::new(0),
        }
    }

    /// The names of a session, by its whole token, and of its subject.
    #[must_use]
    pub fn fingerprint(&self, session_token: &str, subject: &str) -> Fingerprint {
        let mut context = self.subjects.clone();
        context.update(subject.as_bytes());
        Fingerprint {
            session: bytes_of(&digest(&SHA256, session_token.as_bytes())),
            subject: bytes_of(&context.finish()),
        }
    }

    /// What is known and fresh enough to sign a token on. Asks nobody.
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

    /// From now on, what the IAM said about sessions up to this moment is not believed any more,
    /// however fresh it is and whether the IAM can be asked again or not: an end that another
    /// replica recorded in the meantime may have been missed.
    pub fn distrust_until(&self, moment: Moment) {
        let nanos = nanos(moment);
        self.distrusted_until.fetch_max(nanos, Ordering::Release);
    }

    fn distrusts(&self, asked_at: Moment) -> bool {
        let until = self.distrusted_until.load(Ordering::Acquire);
        // Zero is no moment: nothing was missed yet.
        until > 0 && nanos(asked_at) <= until
    }

    /// Takes note that the IAM, asked at `asked_at`, called the session alive, and of what its
    /// user may do, where the IAM told.
    pub fn learn(&self, of: &Fingerprint, asked_at: Moment, permissions: Option<Arc<Permissions>>) {
        self.liveness.insert(of.session, asked_at);
        let Some(permissions) = permissions else {
            return;
        };
        // Two sessions of one user may be asked about at once, and the older answer come last.
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
    /// Asks the IAM, or waits for a question about the same session that is on its way already.
    ///
    /// The question goes on when the client that caused it hangs up, so hanging up and coming
    /// back multiplies nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidSession::Ended`] where the IAM says so, otherwise its fault.
    pub async fn ask(
        self: &Arc<Self>,
        inquiry: Inquiry,
        now: Moment,
    ) -> Result<(Arc<Permissions>, Source), GatewayError> {
        let (asked_at, told) = self.told(&inquiry, now).await;
        if told.is_ok() && self.distrusts(asked_at) {
            // Ends may have been missed while the question was on its way. Once: a connection to
            // the other replicas that comes and goes must keep nobody waiting.
            let (_, told) = self.told(&inquiry, self.clock.now()).await;
            return told;
        }
        told
    }

    /// The answer, and when it was asked for.
    async fn told(
        self: &Arc<Self>,
        inquiry: &Inquiry,
        now: Moment,
    ) -> (Moment, Result<(Arc<Permissions>, Source), GatewayError>) {
        let (flight, source) = match self.join_or_ask(inquiry, now) {
            Admission::Done(permissions) => return (now, Ok((permissions, Source::Coalesced))),
            Admission::Joined(flight) => (flight, Source::Coalesced),
            Admission::Started(flight) => (flight, Source::Miss),
        };
        let asked_at = flight.began;
        let told = match flight.result().await {
            Ok(Ok(Some(permissions))) => Ok((permissions, source)),
            Ok(Ok(None)) => Err(InvalidSession::Ended.into()),
            Ok(Err(fault)) => self
                .instead(&inquiry.fingerprint, &fault)
                .ok_or_else(|| fault.into()),
            Err(lost) => Err(lost.into()),
        };
        (asked_at, told)
    }

    /// What may stand in for an answer that is a fault. By the time now: what was good enough on
    /// arrival may have grown too old since.
    fn instead(
        &self,
        fingerprint: &Fingerprint,
        fault: &IamError,
    ) -> Option<(Arc<Permissions>, Source)> {
        let now = self.clock.now();
        // It was asked for early; the promise itself still holds.
        if let Some(permissions) = self.known(fingerprint, now, Until::Promised) {
            return Some((permissions, Source::Hit));
        }
        is_silence(fault)
            .then(|| self.known(fingerprint, now, Until::Stale))
            .flatten()
            .map(|permissions| (permissions, Source::Stale))
    }

    fn join_or_ask(
        self: &Arc<Self>,
        inquiry: &Inquiry,
        now: Moment,
    ) -> Admission<Answer, Arc<Permissions>> {
        let patience = self.freshness.liveness.min(self.freshness.permissions);
        self.questions.join_or_start(
            inquiry.fingerprint.session,
            now,
            |asked_at| now.since(asked_at) < patience && !self.distrusts(asked_at),
            || self.fresh(&inquiry.fingerprint, now),
            || {
                let (knowledge, inquiry) = (Arc::clone(self), inquiry.clone());
                async move {
                    let answer = knowledge.iam.introspect(&inquiry.upstream).await;
                    answer.and_then(|word| knowledge.note(&inquiry, now, word))
                }
            },
        )
    }

    fn note(&self, inquiry: &Inquiry, asked_at: Moment, word: Introspection) -> Answer {
        match word {
            // An adapter that mixes answers up must not write into somebody else's knowledge.
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

/// Whether the IAM said nothing at all, so that what it said before may still be held to. An IAM
/// that answers something strange has spoken.
fn is_silence(fault: &IamError) -> bool {
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

/// Between 90 % and 100 % of a freshness, always the same for one name. Names are hashes, so their
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
