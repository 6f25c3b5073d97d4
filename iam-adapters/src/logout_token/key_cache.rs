//! Caches the IAM's keys. Concurrent fetches are joined, and their rate is limited.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::trace::FutureExt as _;
use tokio::sync::{Semaphore, watch};
use tracing::Instrument as _;

use super::{InvalidLogoutToken, LogoutTokenError};
use crate::adapter::IamAdapter;
use crate::clock::{Clock, Moment};
use crate::error::IamError;
use crate::jwk::VerificationKeys;

/// How long keys are used before they are fetched again: the longest time in which a key is accepted
/// that the IAM has withdrawn.
const FRESH: Duration = Duration::from_secs(600);

/// How long keys are used if the IAM does not respond.
const STALE: Duration = Duration::from_secs(3600);

/// The shortest time between the end of a fetch and the next one. Anyone can send tokens with unknown
/// key ids; they must not cause many calls. A new key of the IAM is accepted after this time at most.
const PAUSE: Duration = Duration::from_secs(10);

/// The maximum number of tokens that wait for a fetch.
const WAITING_MAX: usize = 64;

pub(super) struct KeyCache {
    iam: Arc<dyn IamAdapter>,
    clock: Arc<dyn Clock>,
    state: Mutex<CacheState>,
    permits: Semaphore,
}

#[derive(Default)]
struct CacheState {
    /// The keys, and when their fetch started.
    keys: Option<(Moment, Arc<VerificationKeys>)>,
    /// When the last fetch ended, and its result.
    last_fetch: Option<(Moment, Result<(), IamError>)>,
    /// Closed when the fetch in flight ends.
    in_flight: Option<watch::Receiver<()>>,
}

type FoundKeys = Result<Arc<VerificationKeys>, LogoutTokenError>;

enum Lookup {
    Done(FoundKeys),
    Wait(watch::Receiver<()>),
}

impl KeyCache {
    pub(super) fn new(iam: Arc<dyn IamAdapter>, clock: Arc<dyn Clock>) -> Self {
        Self {
            iam,
            clock,
            state: Mutex::default(),
            permits: Semaphore::new(WAITING_MAX),
        }
    }

    /// Keys that contain the key with this id.
    pub(super) async fn containing(self: &Arc<Self>, id: &str) -> FoundKeys {
        let mut in_flight = match self.look_up(id) {
            Lookup::Done(found) => return found,
            Lookup::Wait(in_flight) => in_flight,
        };
        let Ok(_permit) = self.permits.try_acquire() else {
            // Forged tokens use all permits. A valid token can still be verified with stale keys.
            let stale = self.state().keys_with(id, self.clock.now(), STALE);
            return stale.ok_or(LogoutTokenError::NoKeys(IamError::Saturated));
        };
        // The fetch sends nothing. It closes the channel when it ends.
        let _ = in_flight.changed().await;
        self.state().decide(id, self.clock.now())
    }

    fn look_up(self: &Arc<Self>, id: &str) -> Lookup {
        let now = self.clock.now();
        let mut state = self.state();
        if let Some(keys) = state.keys_with(id, now, FRESH) {
            return Lookup::Done(Ok(keys));
        }
        // It is closed if the task of the fetch panicked.
        if let Some(in_flight) = &state.in_flight
            && in_flight.has_changed().is_ok()
        {
            return Lookup::Wait(in_flight.clone());
        }
        if let Some((ended_at, _)) = &state.last_fetch
            && now.since(*ended_at) < PAUSE
        {
            return Lookup::Done(state.decide(id, now));
        }
        let (done, in_flight) = watch::channel(());
        state.in_flight = Some(in_flight.clone());
        // The result if the task panics.
        let panicked = IamError::Failed("the fetch of the keys ended early".to_owned());
        state.last_fetch = Some((now, Err(panicked)));
        drop(state);
        // In its own task, so that a client that disconnects does not cancel it for the others.
        let fetch = Arc::clone(self).fetch(now, done);
        tokio::spawn(fetch.in_current_span().with_current_context());
        Lookup::Wait(in_flight)
    }

    async fn fetch(self: Arc<Self>, started_at: Moment, _done: watch::Sender<()>) {
        let fetched = self.iam.verification_keys().await;
        let mut state = self.state();
        let result = fetched.as_ref().map(|_| ()).map_err(IamError::clone);
        state.last_fetch = Some((self.clock.now(), result));
        state.in_flight = None;
        if let Ok(keys) = fetched {
            state.keys = Some((started_at, Arc::new(keys)));
        }
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn keys_with(&self, id: &str, now: Moment, age: Duration) -> Option<Arc<VerificationKeys>> {
        let (fetched_at, keys) = self.keys.as_ref()?;
        let is_usable = now.since(*fetched_at) < age && keys.key(id).is_some();
        is_usable.then(|| Arc::clone(keys))
    }

    /// The result without another fetch.
    fn decide(&self, id: &str, now: Moment) -> FoundKeys {
        match (self.keys_with(id, now, STALE), &self.last_fetch) {
            (Some(keys), _) => Ok(keys),
            (None, Some((_, Err(fault)))) => Err(LogoutTokenError::NoKeys(fault.clone())),
            (None, Some((_, Ok(()))) | None) => Err(InvalidLogoutToken::UnknownKey.into()),
        }
    }
}
