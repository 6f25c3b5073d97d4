//! One call at a time for each key: callers that arrive while a call is in flight share its result.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, join_all, ready};
use opentelemetry::trace::{FutureExt as _, SpanContext};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::task::{self, AbortHandle};
use tracing::Instrument as _;

use crate::{Moment, trace};

/// The result of a call.
type SharedResult<T> = Shared<BoxFuture<'static, Result<T, LostTask>>>;

/// The task of a call panicked, or was dropped with its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a task panicked, or was dropped with its runtime")]
pub struct LostTask;

/// The call whose result the caller gets.
pub struct Flight<T> {
    /// When the call began.
    pub began: Moment,
    /// Whether the caller did not start it.
    pub is_joined: bool,
    /// [`LostTask`] if the call has no result.
    pub result: SharedResult<T>,
}

struct Call<T> {
    began: Moment,
    /// The span in which it began.
    span: SpanContext,
    task: AbortHandle,
    result: SharedResult<T>,
}

/// The calls in flight, by key.
pub struct SingleFlight<K, T>(Arc<Mutex<HashMap<K, Call<T>>>>);

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, T> SingleFlight<K, T>
where
    K: Eq + Hash + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Joins the call in flight for the key if `may_join` accepts the time at which it began.
    /// Otherwise starts `call`, unless `done` returns a result. No call for this key begins or ends
    /// while `done` runs.
    ///
    /// The call runs in a task of its own, and goes on when the client that caused it disconnects. So
    /// clients that disconnect and retry cause no further calls.
    pub fn join_or_start<C>(
        &self,
        key: K,
        now: Moment,
        may_join: impl FnOnce(Moment) -> bool,
        done: impl FnOnce() -> Option<T>,
        call: impl FnOnce() -> C,
    ) -> Flight<T>
    where
        C: Future<Output = T> + Send + 'static,
    {
        let mut calls = self.0.lock();
        // A task that begins removes its call before it is finished. A finished one in the table never began, because
        // its runtime ended, and has no result.
        if let Some(call) = calls.get(&key)
            && !call.task.is_finished()
            && may_join(call.began)
        {
            trace::link_to(&call.span);
            return Flight {
                began: call.began,
                is_joined: true,
                result: call.result.clone(),
            };
        }
        // The call may have ended after the caller last checked and before this lock.
        if let Some(done) = done() {
            return Flight {
                began: now,
                is_joined: true,
                result: ready(Ok(done)).boxed().shared(),
            };
        }
        let (table, key_of_call, call) = (Arc::clone(&self.0), key.clone(), call());
        let task = async move {
            // Before its callers have the result: one that retries must not join the call that failed. Also
            // after a panic. Keeps a later call for the same key.
            let _removal = scopeguard::guard(task::id(), move |task| {
                if let Entry::Occupied(call) = table.lock().entry(key_of_call)
                    && call.get().task.id() == task
                {
                    call.remove();
                }
            });
            call.await
        };
        // Its log lines carry the id of the request that started it, and its spans are in the trace of
        // that request.
        let task = task::spawn(task.in_current_span().with_current_context());
        let handle = task.abort_handle();
        let result = task.map(|result| result.map_err(|_| LostTask));
        let result = result.boxed().shared();
        let call = Call {
            began: now,
            span: trace::current_span(),
            task: handle,
            result: result.clone(),
        };
        calls.insert(key, call);
        Flight {
            began: now,
            is_joined: false,
            result,
        }
    }

    /// Waits until the calls that are in flight now have ended, also those that get no result because their
    /// runtime ends.
    pub async fn ended(&self) {
        let results: Vec<_> = {
            let calls = self.0.lock();
            calls.values().map(|call| call.result.clone()).collect()
        };
        join_all(results).await;
    }
}
