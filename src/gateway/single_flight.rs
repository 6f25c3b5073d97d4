//! One call at a time for each key: callers that arrive while a call is in flight share its result.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iam_adapters::Moment;
use tokio::sync::watch;

use super::error::Internal;

/// A call in flight, as its callers see it.
#[derive(Debug)]
pub(super) struct Flight<T> {
    /// When the call began.
    pub(super) began: Moment,
    result: watch::Receiver<Option<T>>,
}

impl<T> Clone for Flight<T> {
    fn clone(&self) -> Self {
        Self {
            began: self.began,
            result: self.result.clone(),
        }
    }
}

impl<T: Clone> Flight<T> {
    /// The result of the call.
    ///
    /// # Errors
    ///
    /// [`Internal::LostTask`] where the call panicked.
    pub(super) async fn result(mut self) -> Result<T, Internal> {
        let result = self.result.wait_for(Option::is_some).await;
        result
            .ok()
            .and_then(|result| result.clone())
            .ok_or(Internal::LostTask)
    }
}

/// How a caller takes part.
pub(super) enum Admission<T, D> {
    /// No call is needed any more.
    Done(D),
    /// The caller shares a call that was in flight already.
    Joined(Flight<T>),
    /// The caller's call was started.
    Started(Flight<T>),
}

/// The calls in flight, by key.
#[derive(Debug)]
pub(super) struct SingleFlight<K, T>(Arc<Mutex<Flights<K, T>>>);

type Flights<K, T> = HashMap<K, Flight<T>>;

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, T> SingleFlight<K, T>
where
    K: Eq + Hash + Copy + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Joins the call in flight for the key where `may_join` accepts the time at which it began;
    /// otherwise starts `call`, unless `done` finds that it is no longer needed. No call for this key
    /// begins or ends while `done` looks.
    ///
    /// The call runs in a task of its own: it goes on when the client that caused it disconnects, so
    /// that disconnecting and coming back multiplies nothing.
    pub(super) fn join_or_start<D, C>(
        &self,
        key: K,
        now: Moment,
        may_join: impl FnOnce(Moment) -> bool,
        done: impl FnOnce() -> Option<D>,
        call: impl FnOnce() -> C,
    ) -> Admission<T, D>
    where
        C: Future<Output = T> + Send + 'static,
    {
        let mut flights = lock(&self.0);
        let entry = flights.entry(key);
        if let Entry::Occupied(flight) = &entry
            && may_join(flight.get().began)
        {
            return Admission::Joined(flight.get().clone());
        }
        // The call may have ended between the caller's own look and this lock.
        if let Some(done) = done() {
            return Admission::Done(done);
        }
        let (sender, result) = watch::channel(None);
        let flight = Flight { began: now, result };
        entry.insert_entry(flight.clone());
        drop(flights);
        let landing = Landing {
            flights: Arc::clone(&self.0),
            key,
            sender,
        };
        let call = call();
        tokio::spawn(async move {
            let result = call.await;
            landing.land(result);
        });
        Admission::Started(flight)
    }
}

/// Removes the flight however the call ends, also by a panic.
struct Landing<K: Eq + Hash + Copy, T> {
    flights: Arc<Mutex<Flights<K, T>>>,
    key: K,
    sender: watch::Sender<Option<T>>,
}

impl<K: Eq + Hash + Copy, T> Landing<K, T> {
    /// Removes the flight before anybody has its result, so that a caller who tries again because of
    /// the result does not join the call that has failed it.
    fn land(self, result: T) {
        self.remove();
        self.sender.send_replace(Some(result));
    }

    /// Leaves a younger flight of the same key where it is.
    fn remove(&self) {
        if let Entry::Occupied(flight) = lock(&self.flights).entry(self.key)
            && flight.get().result.same_channel(&self.sender.subscribe())
        {
            flight.remove();
        }
    }
}

impl<K: Eq + Hash + Copy, T> Drop for Landing<K, T> {
    fn drop(&mut self) {
        self.remove();
    }
}

fn lock<K, T>(flights: &Mutex<Flights<K, T>>) -> MutexGuard<'_, Flights<K, T>> {
    flights.lock().unwrap_or_else(PoisonError::into_inner)
}
