//! The IAM's keys, kept for a while; asked for again once for all who wait, and seldom.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tracing::Instrument as _;

use super::error::{InvalidLogoutToken, LogoutTokenError};
use super::jwk::VerificationKeys;
use crate::adapter::IamAdapter;
use crate::clock::{Clock, Moment};
use crate::error::IamError;

/// How long keys are used before the IAM is asked again: so long at most is a key believed that
/// the IAM has withdrawn.
const FRESH: Duration = Duration::from_secs(600);

/// How long they are used at most, where the IAM does not answer.
const KEPT: Duration = Duration::from_secs(3600);

/// The least time from one answer of the IAM to the next question. Anybody can name a key that
/// does not exist; that must not become a flood at the IAM. An IAM with a new key waits no longer.
const PAUSE: Duration = Duration::from_secs(10);

/// The most tokens that wait for an answer of the IAM at one time.
const WAITING_MAX: usize = 64;

pub(super) struct KeyCache {
    iam: Arc<dyn IamAdapter>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    places: Semaphore,
}

#[derive(Default)]
struct State {
    /// With the moment at which they were asked for.
    held: Option<(Moment, Arc<VerificationKeys>)>,
    /// When the IAM answered last, and what.
    answered: Option<(Moment, Result<(), IamError>)>,
    /// The question under way.
    asking: Option<watch::Receiver<()>>,
}

type Found = Result<Arc<VerificationKeys>, LogoutTokenError>;

enum Look {
    Decided(Found),
    Wait(watch::Receiver<()>),
}

impl KeyCache {
    pub(super) fn new(iam: Arc<dyn IamAdapter>, clock: Arc<dyn Clock>) -> Self {
        Self {
            iam,
            clock,
            state: Mutex::default(),
            places: Semaphore::new(WAITING_MAX),
        }
    }

    /// Keys with one of that name among them.
    pub(super) async fn with(self: &Arc<Self>, id: &str) -> Found {
        let mut asking = match self.look(id) {
            Look::Decided(found) => return found,
            Look::Wait(asking) => asking,
        };
        let Ok(_place) = self.places.try_acquire() else {
            // Forged tokens take the places; a genuine one may do with a key of some time ago.
            let known = self.state().keys_with(id, self.clock.now(), KEPT);
            return known.ok_or(LogoutTokenError::NoKeys(IamError::Saturated));
        };
        // Nothing is ever sent: the end of the question is what is waited for.
        let _ = asking.changed().await;
        self.state().decide(id, self.clock.now())
    }

    fn look(self: &Arc<Self>, id: &str) -> Look {
        let now = self.clock.now();
        let mut state = self.state();
        if let Some(keys) = state.keys_with(id, now, FRESH) {
            return Look::Decided(Ok(keys));
        }
        // One whose task was lost is none.
        if let Some(asking) = &state.asking
            && asking.has_changed().is_ok()
        {
            return Look::Wait(asking.clone());
        }
        if let Some((answered_at, _)) = &state.answered
            && now.since(*answered_at) < PAUSE
        {
            return Look::Decided(state.decide(id, now));
        }
        let (done, asking) = watch::channel(());
        state.asking = Some(asking.clone());
        // What stands where the task is lost.
        let lost = IamError::Failed("the question broke off".to_owned());
        state.answered = Some((now, Err(lost)));
        drop(state);
        // In a task of its own: a client that hangs up leaves the others their answer.
        tokio::spawn(Arc::clone(self).ask(now, done).in_current_span());
        Look::Wait(asking)
    }

    async fn ask(self: Arc<Self>, asked_at: Moment, _done: watch::Sender<()>) {
        let answer = self.iam.verification_keys().await;
        let mut state = self.state();
        let word = answer.as_ref().map(|_| ()).map_err(IamError::clone);
        state.answered = Some((self.clock.now(), word));
        state.asking = None;
        if let Ok(keys) = answer {
            state.held = Some((asked_at, Arc::new(keys)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keys_with(&self, id: &str, now: Moment, age: Duration) -> Option<Arc<VerificationKeys>> {
        let (asked_at, keys) = self.held.as_ref()?;
        let good = now.since(*asked_at) < age && keys.key(id).is_some();
        good.then(|| Arc::clone(keys))
    }

    /// By what is known without another question.
    fn decide(&self, id: &str, now: Moment) -> Found {
        match (self.keys_with(id, now, KEPT), &self.answered) {
            (Some(keys), _) => Ok(keys),
            (None, Some((_, Err(fault)))) => Err(LogoutTokenError::NoKeys(fault.clone())),
            (None, Some((_, Ok(()))) | None) => Err(InvalidLogoutToken::UnknownKey.into()),
        }
    }
}
