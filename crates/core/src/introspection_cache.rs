//! Cached data from the IAM: how old it may be, and introspection when it is older.
//!
//! Two caches: whether a session is active, by its id and a keyed hash of the whole content of its token,
//! and the permissions of its user, by the hash of adapter, issuer and subject, or by that of the session token
//! if the IAM states those of the login. A value comes only from a response of the IAM. Its age begins when the
//! request was *sent*, because the response may lack later changes. No part of a client's request is part of a
//! value.
//!
//! A fault that may be of one session is held for a second, so that a client which repeats its exchange
//! causes one call in that time.
//!
//! Replicas may share the responses. Then data that is not in the caches is looked up there, before the
//! IAM is called.

mod held_faults;
pub mod shared;

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use iam_adapters::name::Name as _;
use iam_adapters::single_flight::{Flight, SingleFlight};
use iam_adapters::trace::ChildSpan;
use iam_adapters::{
    ClaimSources, IamAdapter, IamError, Introspection, Moment, PermissionAge, UpstreamSession,
    UserData,
};
use moka::sync::Cache;
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanBuilder;

use super::error::{GatewayError, InvalidSession};
use super::event::Event;
use super::replica_state::ReplicaState;
use super::revocations::{Revocation, RevocationId};
use super::session_id::SessionId;
use crate::results::{DataSource, LookUp};
use held_faults::HeldFaults;

type Digest = [u8; SHA256_OUTPUT_LEN];

/// What is known about a session that is active.
#[derive(Debug, Clone)]
pub(super) struct ActiveSession {
    /// What the IAM states about its user.
    pub(super) user: Arc<UserData>,
    pub(super) source: DataSource,
}

impl ActiveSession {
    pub(super) const fn new(user: Arc<UserData>, source: DataSource) -> Self {
        Self { user, source }
    }
}

/// The result of an introspection; `None`: the session is inactive.
type IntrospectionOutcome = Result<Option<ActiveSession>, IamError>;

/// How old cached data of an IAM may be when an access token is issued.
#[derive(Debug, Clone, Copy)]
pub struct Freshness {
    /// Of "the session is active".
    pub liveness: Duration,
    /// Of the permissions.
    pub permissions: Duration,
    /// How much older both may be while the IAM does not respond.
    pub stale_if_error: Duration,
}

/// The key of a session in the caches.
///
/// A holder of a sealing key can seal several contents with one id. To find two with one hash, it can only
/// guess, because the hash has a secret key and is never shown. Each guess costs an introspection.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    id: SessionId,
    content: u64,
}

/// The keys of a session and its subject in the caches.
#[derive(Clone, Copy)]
pub(super) struct Fingerprint {
    pub(super) session: SessionKey,
    subject: Digest,
    /// Of the session token: shared data is sealed for it, and permissions of the login are cached under it.
    token: Digest,
}

#[derive(Clone)]
pub(super) struct IntrospectionRequest {
    pub(super) fingerprint: Fingerprint,
    /// The revocation to record if the IAM reports the session as inactive. Its id is also that of
    /// the session's data in the shared cache.
    pub(super) revocation: Revocation,
    pub(super) upstream: UpstreamSession,
}

#[derive(Debug, Clone, Copy)]
enum AgeLimit {
    /// A little less than its freshness, by a different amount for each key: data cached at one time,
    /// such as the end of an outage, must not expire at one time.
    Spread,
    Full,
    Stale,
}

#[derive(Clone, Copy)]
struct AliveSession {
    requested_at: Moment,
    /// The key of its user's permissions.
    user: Digest,
}

#[derive(Clone)]
struct CachedUser {
    requested_at: Moment,
    user: Arc<UserData>,
}

/// The two caches and the held faults. Those of several IAMs are one, so that one bound holds for all of
/// them.
#[derive(Clone)]
pub(super) struct Caches {
    /// Each with the key of its user in `permissions`, which would otherwise be hashed each time.
    liveness: Cache<SessionKey, AliveSession>,
    permissions: Cache<Digest, CachedUser>,
    faults: Arc<HeldFaults>,
    /// Has the secret key of the hashes in session keys.
    contents: RandomState,
}

impl Caches {
    /// Empty caches with this bound for both together, for IAMs with this maximum age of their data.
    pub(super) fn new(max_bytes: u64, freshness: &[Freshness]) -> Self {
        // The lifetimes only save memory: every look-up checks the age.
        let lifetime = |of: fn(&Freshness) -> Duration| {
            let lifetimes = freshness.iter();
            let lifetimes = lifetimes.map(|each| of(each) + each.stale_if_error);
            lifetimes.max().unwrap_or_default()
        };
        let liveness = Cache::builder()
            .max_capacity(max_bytes / 2)
            .weigher(|_, _| weight(size_of::<(SessionKey, AliveSession)>()))
            .time_to_live(lifetime(|each| each.liveness))
            .build();
        let permissions = Cache::builder()
            .max_capacity(max_bytes / 2)
            .weigher(|_, known: &CachedUser| {
                let held = &known.user;
                // One allocation for each name, one for the list of them, one for the claims, one for the
                // `Arc` with its two counts and the addresses and lengths of both.
                let arc = size_of::<[usize; 2]>() + size_of::<UserData>();
                let claims = usize::from(held.claims.heap_size() > 0);
                let allocations = held.permissions.len() + claims + 2;
                let heap = held.heap_size() + arc + ALLOCATION_OVERHEAD * allocations;
                weight(size_of::<(Digest, CachedUser)>() + heap)
            })
            .time_to_live(lifetime(|each| each.permissions))
            .build();
        Self {
            liveness,
            permissions,
            faults: Arc::default(),
            contents: RandomState::new(),
        }
    }

    pub(super) fn usage(&self) -> [CacheUsage; 2] {
        [
            usage_of("liveness", &self.liveness),
            usage_of("permissions", &self.permissions),
        ]
    }
}

/// How full a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUsage {
    /// The name of the cache.
    pub name: &'static str,
    /// The number of entries.
    pub entries: u64,
    /// The estimated memory of the entries.
    pub bytes: u64,
    /// The most for `bytes`.
    pub max_bytes: u64,
}

fn usage_of<K, V>(name: &'static str, cache: &Cache<K, V>) -> CacheUsage
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    // Otherwise the counts lack the latest changes, and contain entries that have expired.
    cache.run_pending_tasks();
    CacheUsage {
        name,
        entries: cache.entry_count(),
        bytes: cache.weighted_size(),
        max_bytes: cache.policy().max_capacity().unwrap_or(u64::MAX),
    }
}

/// The cached data of one IAM, and its introspections in flight.
#[derive(derive_more::Debug)]
#[debug("IntrospectionCache {{ freshness: {freshness:?}, .. }}")]
pub(super) struct IntrospectionCache {
    iam: Arc<dyn IamAdapter>,
    replica: Arc<ReplicaState>,
    freshness: Freshness,
    /// SHA-256 over adapter and issuer, to be completed with the subject.
    subjects: Context,
    caches: Caches,
    in_flight: SingleFlight<SessionKey, IntrospectionOutcome>,
}

/// The memory of an entry beside its key and value: moka's own data. Measured as resident
/// memory from 100,000 to 800,000 entries: 318 bytes while the cache fills, 343 once it is full.
const ENTRY_OVERHEAD: usize = 344;

/// The average memory of an allocation beside its content.
const ALLOCATION_OVERHEAD: usize = 16;

impl IntrospectionCache {
    pub(super) fn new(
        iam: Arc<dyn IamAdapter>,
        freshness: Freshness,
        claims: &ClaimSources,
        caches: Caches,
        replica: Arc<ReplicaState>,
    ) -> Self {
        let mut subjects = Context::new(&SHA256);
        for part in [iam.name(), iam.issuer()] {
            subjects.update(&part.len().to_be_bytes());
            subjects.update(part.as_bytes());
        }
        // A replica with other settings of claims must not use the data of this one.
        for (name, source) in claims.iter() {
            let (kind, required) = (source.r#type.name(), &[u8::from(source.required)][..]);
            for part in [
                name.as_bytes(),
                source.member.as_bytes(),
                kind.as_bytes(),
                required,
            ] {
                subjects.update(&part.len().to_be_bytes());
                subjects.update(part);
            }
        }
        Self {
            iam,
            replica,
            freshness,
            subjects,
            caches,
            in_flight: SingleFlight::default(),
        }
    }

    /// The key of the session with this id, by the whole content of its token. Not by the token, which is
    /// longer: the content is all of the session.
    pub(super) fn session_key(&self, id: SessionId, content: &[u8]) -> SessionKey {
        let content = self.caches.contents.hash_one(content);
        SessionKey { id, content }
    }

    /// The keys of a session and of its subject.
    pub(super) fn fingerprint(
        &self,
        session: SessionKey,
        session_token: &str,
        subject: &str,
    ) -> Fingerprint {
        let mut subjects = self.subjects.clone();
        subjects.update(subject.as_bytes());
        Fingerprint {
            session,
            subject: bytes_of(&subjects.finish()),
            token: bytes_of(&digest(&SHA256, session_token.as_bytes())),
        }
    }

    /// Permissions that are fresh enough to sign a token with. Does not call the IAM.
    pub(super) fn fresh(&self, session: &SessionKey, now: Moment) -> Option<Arc<UserData>> {
        self.within(session, now, AgeLimit::Spread)
    }

    fn within(&self, session: &SessionKey, now: Moment, limit: AgeLimit) -> Option<Arc<UserData>> {
        let AliveSession {
            requested_at: alive_at,
            user,
        } = self.caches.liveness.get(session)?;
        let age_max = self.age_max(self.freshness.liveness, session.id.as_bytes(), limit);
        if now.since(alive_at) >= age_max || self.replica.revocations.missed_since(alive_at) {
            return None;
        }
        let known = self.caches.permissions.get(&user)?;
        let age_max = self.age_max(self.freshness.permissions, &user, limit);
        (now.since(known.requested_at) < age_max).then_some(known.user)
    }

    fn age_max(&self, freshness: Duration, of: &[u8], limit: AgeLimit) -> Duration {
        match limit {
            AgeLimit::Spread => spread(freshness, of),
            AgeLimit::Full => freshness,
            AgeLimit::Stale => freshness + self.freshness.stale_if_error,
        }
    }

    /// Records that the IAM, called at `requested_at`, reported the session as active, and the
    /// permissions of its user, if the response had them.
    pub(super) fn insert(
        &self,
        of: &Fingerprint,
        requested_at: Moment,
        user: Option<Arc<UserData>>,
    ) {
        let key = match self.iam.capabilities().permissions {
            PermissionAge::Current => of.subject,
            // Another session of the user may have others.
            PermissionAge::Login => of.token,
        };
        let alive = AliveSession {
            requested_at,
            user: key,
        };
        self.caches.liveness.insert(of.session, alive);
        let Some(user) = user else {
            return;
        };
        // With two introspections for one user at once, the older response may come last.
        self.caches.permissions.entry(key).and_upsert_with(|known| {
            match known.map(moka::Entry::into_value) {
                Some(newer) if newer.requested_at.monotonic > requested_at.monotonic => newer,
                _ => CachedUser { requested_at, user },
            }
        });
    }
}

impl IntrospectionCache {
    /// Offers the other replicas what the IAM, called at `requested_at`, responded about the session
    /// with this id.
    pub(super) fn publish(
        &self,
        of: &Fingerprint,
        id: RevocationId,
        requested_at: Moment,
        user: &UserData,
    ) {
        let lifetime = self.freshness.liveness.min(self.freshness.permissions);
        shared::put(&self.replica, of, id, requested_at, lifetime, user);
    }

    /// Caches what another replica shared, if it is newer than the data here. Returns permissions that
    /// are then fresh enough.
    async fn look_up_shared(&self, request: &IntrospectionRequest) -> Option<Arc<UserData>> {
        let cache = self.replica.replicas.cache.as_ref()?;
        let of = &request.fingerprint;
        let found = shared::get(&self.replica, cache, of, request.revocation.id).await;
        let fresh = found.and_then(|(requested_at, user)| {
            let known = self.caches.liveness.get(&of.session);
            if known.is_none_or(|known| known.requested_at.monotonic < requested_at.monotonic) {
                self.insert(of, requested_at, Some(Arc::new(user)));
            }
            self.fresh(&of.session, self.replica.clock.now())
                .ok_or(LookUp::Stale)
        });
        let result = fresh.as_ref().err().copied().unwrap_or(LookUp::Hit);
        let event = Event::SharedLookUp { result };
        self.replica.subscribers.emit(&event);
        fresh.ok()
    }

    /// Introspects a session, or joins an introspection of it that is in flight.
    ///
    /// The introspection goes on when the client that caused it disconnects, so clients that
    /// disconnect and retry cause no further calls.
    ///
    /// # Errors
    ///
    /// [`InvalidSession::Ended`] if the IAM reports the session as inactive, otherwise a fault.
    pub(super) async fn introspect(
        self: &Arc<Self>,
        request: IntrospectionRequest,
        now: Moment,
    ) -> Result<ActiveSession, GatewayError> {
        let span = ChildSpan::start(|| SpanBuilder::from_name("introspection"));
        let introspection = async {
            let (requested_at, result) = self.introspect_once(&request, now).await;
            if result.is_ok() && !self.may_use(requested_at, self.replica.clock.now()) {
                // The machine was suspended during the call, or revocations may have been missed. Only one more
                // call: an unstable connection to the other replicas must not delay clients.
                let (_, result) = self
                    .introspect_once(&request, self.replica.clock.now())
                    .await;
                return result;
            }
            result
        };
        let result = span.around(introspection).await;
        span.end(|span| {
            if let Ok(active) = &result {
                span.set_attribute(KeyValue::new("auth_gateway.cache", active.source.name()));
            }
        });
        result
    }

    /// The result, and when its request to the IAM was sent.
    async fn introspect_once(
        self: &Arc<Self>,
        request: &IntrospectionRequest,
        now: Moment,
    ) -> (Moment, Result<ActiveSession, GatewayError>) {
        let flight = self.join_or_introspect(request, now);
        let result = match flight.result.await {
            Ok(Ok(Some(active))) if flight.is_joined => {
                Ok(ActiveSession::new(active.user, DataSource::Coalesced))
            }
            Ok(Ok(Some(active))) => Ok(active),
            Ok(Ok(None)) => Err(InvalidSession::Ended.into()),
            Ok(Err(fault)) => self
                .fallback(&request.fingerprint, &fault)
                .ok_or_else(|| fault.into()),
            Err(lost) => Err(lost.into()),
        };
        (flight.began, result)
    }

    /// Cached data that may be used if the IAM failed. Its age is that of now: data that was fresh
    /// when the request arrived may be too old.
    fn fallback(&self, fingerprint: &Fingerprint, fault: &IamError) -> Option<ActiveSession> {
        let (now, session) = (self.replica.clock.now(), &fingerprint.session);
        // The call was made early, within the last 10 % of the freshness.
        if let Some(user) = self.within(session, now, AgeLimit::Full) {
            return Some(ActiveSession::new(user, DataSource::Hit));
        }
        is_unanswered(fault)
            .then(|| self.within(session, now, AgeLimit::Stale))
            .flatten()
            .map(|user| ActiveSession::new(user, DataSource::Stale))
    }

    fn join_or_introspect(
        self: &Arc<Self>,
        request: &IntrospectionRequest,
        now: Moment,
    ) -> Flight<IntrospectionOutcome> {
        self.in_flight.join_or_start(
            request.fingerprint.session,
            now,
            |requested_at| self.may_use(requested_at, now),
            || {
                let fresh = self.fresh(&request.fingerprint.session, now);
                let fresh =
                    fresh.map(|user| Ok(Some(ActiveSession::new(user, DataSource::Coalesced))));
                let fault = || self.caches.faults.get(&request.fingerprint.session, now);
                fresh.or_else(|| fault().map(Err))
            },
            || {
                let (cache, request) = (Arc::clone(self), request.clone());
                async move {
                    if let Some(user) = cache.look_up_shared(&request).await {
                        return Ok(Some(ActiveSession::new(user, DataSource::Shared)));
                    }
                    let answer = cache.iam.introspect(&request.upstream).await;
                    let answer =
                        answer.and_then(|introspection| cache.record(&request, now, introspection));
                    if let Err(fault) = &answer {
                        cache.record_fault(&request.fingerprint, now, fault);
                    }
                    answer
                }
            },
        )
    }

    /// Whether an introspection whose request was sent at `requested_at` decides now.
    fn may_use(&self, requested_at: Moment, now: Moment) -> bool {
        let age_max = self.freshness.liveness.min(self.freshness.permissions);
        now.since(requested_at) < age_max && !self.replica.revocations.missed_since(requested_at)
    }

    fn record_fault(&self, of: &Fingerprint, requested_at: Moment, fault: &IamError) {
        if !may_be_of_one_session(fault) {
            return;
        }
        if matches!(fault, IamError::PermissionSource(_)) {
            // Only the decision is missing: the IAM has reported the session as active.
            self.insert(of, requested_at, None);
        }
        let now = self.replica.clock.now();
        self.caches.faults.hold(of.session, now, fault.clone());
    }

    fn record(
        &self,
        request: &IntrospectionRequest,
        requested_at: Moment,
        introspection: Introspection,
    ) -> IntrospectionOutcome {
        match introspection {
            // An adapter that confuses responses must not write the cached data of another subject.
            Introspection::Active { subject, .. } if subject != request.upstream.subject => Err(
                IamError::Unreadable("the response is about another subject".into()),
            ),
            Introspection::Active {
                permissions,
                claims,
                ..
            } => {
                let user = Arc::new(UserData {
                    permissions,
                    claims,
                });
                let of = &request.fingerprint;
                self.insert(of, requested_at, Some(Arc::clone(&user)));
                self.publish(of, request.revocation.id, requested_at, &user);
                Ok(Some(ActiveSession::new(user, DataSource::Miss)))
            }
            Introspection::Inactive => {
                self.replica
                    .revocations
                    .record(&request.revocation, self.replica.clock.now());
                self.caches
                    .liveness
                    .invalidate(&request.fingerprint.session);
                Ok(None)
            }
        }
    }
}

/// Whether the IAM gave no response, so that its last one may still be used. A response that cannot
/// be parsed is a response.
fn is_unanswered(fault: &IamError) -> bool {
    let fault = fault.fault();
    fault.is_failure()
        || matches!(
            fault,
            IamError::Throttled { .. } | IamError::Saturated | IamError::CircuitOpen
        )
}

/// Whether the IAM may fail for one session and serve the others. Other faults are not held: no call was
/// made, or the circuit breaker limits the calls.
const fn may_be_of_one_session(fault: &IamError) -> bool {
    match fault {
        IamError::Disconnected(_)
        | IamError::TimedOut(_)
        | IamError::Failed(_)
        | IamError::Throttled { .. }
        | IamError::Refused(_)
        | IamError::Unreadable(_)
        | IamError::UnreadableSession(_)
        | IamError::PossibleRefusal(_)
        | IamError::Misconfigured { .. } => true,
        IamError::Unreachable(_) | IamError::Saturated | IamError::CircuitOpen => false,
        // Each of its faults but this one came after a call to the IAM.
        IamError::PermissionSource(fault) => !matches!(**fault, IamError::CircuitOpen),
    }
}

/// Between 90 % and 100 % of a freshness, always the same for one hash or random id: their first byte
/// spreads them evenly.
fn spread(freshness: Duration, of: &[u8]) -> Duration {
    let first = of.first().copied().unwrap_or_default();
    freshness.saturating_sub(freshness / (10 * 256) * u32::from(first))
}

/// The memory of an entry whose key and value have this size.
fn weight(entry: usize) -> u32 {
    u32::try_from(entry + ENTRY_OVERHEAD).unwrap_or(u32::MAX)
}

fn bytes_of(digest: &aws_lc_rs::digest::Digest) -> Digest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests;
