//! Caches the IAM's keys. There is one fetch at a time, and their rate is limited.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
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
    pub(super) iam: Arc<dyn IamAdapter>,
    pub(super) clock: Arc<dyn Clock>,
    /// The keys, and when their fetch started.
    keys: Mutex<Option<(Moment, Arc<VerificationKeys>)>>,
    /// When the last fetch ended, and its result. Locked during a fetch, so that the others wait for it.
    last_fetch: tokio::sync::Mutex<Option<(Moment, Result<(), IamError>)>>,
    permits: Semaphore,
}

impl KeyCache {
    pub(super) fn new(iam: Arc<dyn IamAdapter>, clock: Arc<dyn Clock>) -> Self {
        Self {
            iam,
            clock,
            keys: Mutex::default(),
            last_fetch: tokio::sync::Mutex::default(),
            permits: Semaphore::new(WAITING_MAX),
        }
    }

    /// Keys that contain the key with this id.
    pub(super) async fn containing(
        self: &Arc<Self>,
        id: &str,
    ) -> Result<Arc<VerificationKeys>, LogoutTokenError> {
        if let Some(keys) = self.cached(id, FRESH) {
            return Ok(keys);
        }
        let Ok(_permit) = self.permits.try_acquire() else {
            // Forged tokens use all permits. A valid token can still be verified with stale keys.
            let stale = self.cached(id, STALE);
            return stale.ok_or(LogoutTokenError::NoKeys(IamError::Saturated));
        };
        // In its own task, so that a client that disconnects does not cancel it for the others.
        let fetch = Arc::clone(self).fetch();
        let fetched = tokio::spawn(fetch.in_current_span().with_current_context()).await;
        match (self.cached(id, STALE), fetched) {
            (Some(keys), _) => Ok(keys),
            (None, Ok(Ok(()))) => Err(InvalidLogoutToken::UnknownKey.into()),
            (None, Ok(Err(fault))) => Err(LogoutTokenError::NoKeys(fault)),
            (None, Err(_)) => Err(LogoutTokenError::NoKeys(panicked())),
        }
    }

    /// Fetches the keys, unless the last fetch has just ended, and returns the result of the last fetch.
    async fn fetch(self: Arc<Self>) -> Result<(), IamError> {
        let mut last_fetch = self.last_fetch.lock().await;
        let started_at = self.clock.now();
        if let Some((ended_at, result)) = &*last_fetch
            && started_at.since(*ended_at) < PAUSE
        {
            return result.clone();
        }
        *last_fetch = Some((started_at, Err(panicked())));
        let fetched = self.iam.verification_keys().await;
        let result = fetched.map(|keys| {
            *self.keys.lock() = Some((started_at, Arc::new(keys)));
        });
        *last_fetch = Some((self.clock.now(), result.clone()));
        result
    }

    fn cached(&self, id: &str, age: Duration) -> Option<Arc<VerificationKeys>> {
        let keys = self.keys.lock();
        let (fetched_at, keys) = keys.as_ref()?;
        let is_usable = self.clock.now().since(*fetched_at) < age && keys.key(id).is_some();
        is_usable.then(|| Arc::clone(keys))
    }
}

/// The result of a fetch if the adapter panics.
fn panicked() -> IamError {
    IamError::Failed("the fetch of the keys ended early".to_owned())
}
