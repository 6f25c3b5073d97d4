//! One call at a time for each key: callers that arrive while a call is in flight share its result.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iam_adapters::{Moment, trace};
use opentelemetry::trace::{FutureExt as _, SpanContext};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::error::Internal;

/// A call in flight.
#[derive(Debug)]
pub(super) struct InFlight<T> {
    /// When the call began.
    pub(super) began: Moment,
    /// The span in which it began.
    span: SpanContext,
    result: watch::Receiver<Option<T>>,
}

impl<T> Clone for InFlight<T> {
    fn clone(&self) -> Self {
        Self {
            began: self.began,
            span: self.span.clone(),
            result: self.result.clone(),
        }
    }
}

impl<T: Clone> InFlight<T> {
    /// The result of the call.
    ///
    /// # Errors
    ///
    /// [`Internal::LostTask`] if the call panicked.
    pub(super) async fn result(mut self) -> Result<T, Internal> {
        let result = self.result.wait_for(Option::is_some).await;
        result
            .ok()
            .and_then(|result| result.clone())
            .ok_or(Internal::LostTask)
    }
}

/// The result of [`SingleFlight::join_or_start`].
pub(super) enum Admission<T, D> {
    /// No call is needed.
    Done(D),
    /// The caller shares a call that was in flight already.
    Joined(InFlight<T>),
    /// The caller's call was started.
    Started(InFlight<T>),
}

/// The calls in flight, by key.
#[derive(Debug)]
pub(super) struct SingleFlight<K, T>(Arc<Mutex<Calls<K, T>>>);

type Calls<K, T> = HashMap<K, InFlight<T>>;

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
    /// Joins the call in flight for the key if `may_join` accepts the time at which it began.
    /// Otherwise starts `call`, unless `done` returns a result. No call for this key begins or ends
    /// while `done` runs.
    ///
    /// The call runs in a task of its own, and goes on when the client that caused it disconnects. So
    /// clients that disconnect and retry cause no further calls.
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
        let mut calls = lock(&self.0);
        let entry = calls.entry(key);
        if let Entry::Occupied(call) = &entry
            && may_join(call.get().began)
        {
            trace::link_to(&call.get().span);
            return Admission::Joined(call.get().clone());
        }
        // The call may have ended after the caller last checked and before this lock.
        if let Some(done) = done() {
            return Admission::Done(done);
        }
        let (sender, result) = watch::channel(None);
        let in_flight = InFlight {
            began: now,
            span: trace::current_span(),
            result,
        };
        entry.insert_entry(in_flight.clone());
        drop(calls);
        let completion = Completion {
            calls: Arc::clone(&self.0),
            key,
            sender,
        };
        let call = call();
        let task = async move {
            let result = call.await;
            completion.complete(result);
        };
        // Its log lines carry the id of the request that started it, and its spans are in the trace of
        // that request.
        tokio::spawn(task.in_current_span().with_current_context());
        Admission::Started(in_flight)
    }
}

/// Removes a call that has ended, also by a panic.
struct Completion<K: Eq + Hash + Copy, T> {
    calls: Arc<Mutex<Calls<K, T>>>,
    key: K,
    sender: watch::Sender<Option<T>>,
}

impl<K: Eq + Hash + Copy, T> Completion<K, T> {
    /// Removes the call before its callers have the result: a caller that retries must not join the
    /// call that failed.
    fn complete(self, result: T) {
        self.remove();
        self.sender.send_replace(Some(result));
    }

    /// Keeps a later call for the same key.
    fn remove(&self) {
        if let Entry::Occupied(call) = lock(&self.calls).entry(self.key)
            && call.get().result.same_channel(&self.sender.subscribe())
        {
            call.remove();
        }
    }
}

impl<K: Eq + Hash + Copy, T> Drop for Completion<K, T> {
    fn drop(&mut self) {
        self.remove();
    }
}

fn lock<K, T>(calls: &Mutex<Calls<K, T>>) -> MutexGuard<'_, Calls<K, T>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
