//! What this replica still has to add to a log, and the requests that wait until it has.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iam_adapters::trace::{self, ChildSpan};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use auth_gateway_core::revocations::{Delivered, RevocationPublisher};
use auth_gateway_core::revocations::{Revocation, RevocationIndex};

/// How long a request waits until its item is sent. Redis takes less than a millisecond; after a
/// timeout or a refusal no request waits until Redis stores items again.
const DELIVERY_DEADLINE: Duration = Duration::from_millis(250);

/// Fewer items than this are not worth a search for those that need not be sent any more.
const PRUNED_FROM: usize = 1_024;

/// The items of a log that are not in its stream yet, in their order, each once.
#[derive(Debug, Clone)]
pub struct Outbox<T>(Arc<OutboxState<T>>);

#[derive(Debug)]
struct OutboxState<T> {
    state: Mutex<OutboxItems<T>>,
    /// The number of items; updated after every change.
    len: watch::Sender<usize>,
    added: Notify,
    /// Whether Redis stores items in time, so that requests wait.
    is_responsive: AtomicBool,
}

#[derive(Debug)]
struct OutboxItems<T> {
    /// Whether each is to be taken from `requeued`.
    unsent: HashMap<T, bool>,
    /// Every other item that is not offered, and some that are no longer in `unsent`.
    queue: VecDeque<T>,
    /// Items that the stream has lost, and some that are no longer to be taken from here. New ones are offered before
    /// them: sending a million takes at least ten seconds.
    requeued: VecDeque<T>,
    /// Those to which Redis has not responded yet.
    offered: Vec<T>,
    /// The most items: the oldest are dropped.
    max: usize,
    /// The number of items at which those that need not be sent any more are next removed.
    prune_at: usize,
    /// Hashes of the items that the reading of the stream has found or that were stored since it began; `None`: no
    /// reading.
    found: Option<HashSet<u64>>,
    hasher: RandomState,
}

impl<T: Copy + Eq + Hash + Send + Sync + 'static> Outbox<T> {
    /// Without items, and with room for `max`.
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(OutboxState {
            state: Mutex::new(OutboxItems {
                unsent: HashMap::new(),
                queue: VecDeque::new(),
                requeued: VecDeque::new(),
                offered: Vec::new(),
                max,
                prune_at: PRUNED_FROM,
                found: None,
                hasher: RandomState::new(),
            }),
            len: watch::Sender::new(0),
            added: Notify::new(),
            is_responsive: AtomicBool::new(false),
        }))
    }

    /// Waits until there are no items.
    pub async fn emptied(&self) {
        let mut len = self.0.len.subscribe();
        // Fails only if the sender is dropped, which `self` owns.
        let _ = len.wait_for(|len| *len == 0).await;
    }

    pub(super) fn len(&self) -> usize {
        *self.0.len.borrow()
    }

    /// Queues an item, unless it is there. Returns whether another one was dropped.
    pub(super) fn push(&self, item: T) -> bool {
        let mut state = self.0.state.lock();
        state.push(item);
        let dropped = state.unsent.len() > state.max
            && (state.queue.pop_front()).is_some_and(|first| state.unsent.remove(&first).is_some());
        drop(state);
        // No request has to be woken: with many of them, each new one would wake all the others.
        self.0.len.send_if_modified(|len| {
            *len = self.0.count();
            false
        });
        self.0.added.notify_one();
        dropped
    }

    /// From now on, requests wait until their items are sent.
    pub(super) fn connected(&self) {
        self.0.is_responsive.store(true, Ordering::Release);
    }

    /// From now on, requests do not wait. From time to time, the items that need not be sent any more are removed.
    pub(super) fn disconnected(&self, must_be_sent: impl Fn(&T) -> bool) {
        self.0.is_responsive.store(false, Ordering::Release);
        let mut guard = self.0.state.lock();
        let state = &mut *guard;
        if state.unsent.len() >= state.prune_at {
            state.unsent.retain(|item, _| must_be_sent(item));
            for queue in [&mut state.queue, &mut state.requeued] {
                queue.retain(|item| state.unsent.contains_key(item));
            }
            // Doubling makes the cost of all searches constant for each item.
            state.prune_at = PRUNED_FROM.max(state.unsent.len() * 2);
        }
        self.0.changed(guard);
    }

    /// Offers the first items, at most `most`, with what `load` returns. If that is nothing, the item need not be sent any
    /// more. Until [`Self::settle`] they stay in the outbox, and are offered again. If there are none, nothing is refused any
    /// more, and requests wait again until their items are sent.
    pub(super) fn offer<C>(&self, most: usize, load: impl Fn(&T) -> Option<C>) -> Vec<(T, C)> {
        let mut state = self.0.state.lock();
        let batch = state.offer(most, load);
        if batch.is_empty() {
            self.0.is_responsive.store(true, Ordering::Release);
            self.0.changed(state);
        }
        batch
    }

    /// Waits until an item was added since this was last called.
    pub(super) async fn added(&self) {
        self.0.added.notified().await;
    }

    /// Records the results of the last offer. What Redis refused, and what has changed since it was sent, stays.
    pub(super) fn settle<C: PartialEq, E>(
        &self,
        batch: &[(T, C)],
        results: &[Result<(), E>],
        load: impl Fn(&T) -> Option<C>,
    ) {
        let mut state = self.0.state.lock();
        state.offered.clear();
        for ((item, sent), result) in batch.iter().zip(results).rev() {
            if result.is_ok() && load(item).is_none_or(|now| now == *sent) {
                state.unsent.remove(item);
                state.mark_found(item);
            } else {
                state.queue.push_front(*item);
            }
        }
        let are_stored = results.iter().all(Result::is_ok);
        self.0.is_responsive.store(are_stored, Ordering::Release);
        self.0.changed(state);
    }

    /// The stream is read from its beginning.
    pub(super) fn begin_reading(&self) {
        self.0.state.lock().found = Some(HashSet::new());
    }

    /// An item was read from the stream. It need not be sent if it `is_current`, which is called while no item is added.
    pub(super) fn found(&self, item: &T, is_current: impl FnOnce() -> bool) {
        let mut state = self.0.state.lock();
        if is_current() {
            state.mark_found(item);
            if state.unsent.remove(item).is_some() {
                self.0.changed(state);
            }
        }
    }

    /// Queues those of the `live` items that the reading has not found: a failover loses acknowledged entries, and a
    /// stream can be deleted. Returns their number.
    ///
    /// There can be millions, and no request may wait for all of them. So each is compared by itself, without a lock unless the
    /// reading has not found it. What requests add meanwhile is queued by [`Self::push`], as always. Nothing else changes: the
    /// task that calls this method is also the one that reads the stream and settles what was offered.
    pub(super) fn requeue_missing(&self, live: impl FnOnce() -> Vec<T>) -> usize {
        let mut state = self.0.state.lock();
        let Some(found) = state.found.take() else {
            return 0;
        };
        let hasher = state.hasher.clone();
        drop(state);
        let mut missing = live();
        missing.retain(|item| {
            let is_found = found.contains(&hasher.hash_one(item));
            !is_found && !self.0.state.lock().unsent.contains_key(item)
        });
        self.0.state.lock().unsent.reserve(missing.len());
        for item in &missing {
            let mut state = self.0.state.lock();
            // One that was added meanwhile is in the queue already.
            state.unsent.entry(*item).or_insert(true);
            state.requeued.push_back(*item);
        }
        self.0.changed(self.0.state.lock());
        self.0.added.notify_one();
        missing.len()
    }

    /// Waits until an item is sent, for at most [`DELIVERY_DEADLINE`] and while Redis is responsive. An item that is
    /// `new` in the queue may have been sent since, and its command has a span all the same.
    fn delivered(&self, item: T, is_new: bool) -> Delivered {
        let is_responsive = self.0.is_responsive.load(Ordering::Acquire);
        let inner = Arc::clone(&self.0);
        let is_awaited = move || {
            inner.is_responsive.load(Ordering::Acquire)
                && inner.state.lock().unsent.contains_key(&item)
        };
        if !(is_new && is_responsive || is_awaited()) {
            return Box::pin(std::future::ready(()));
        }
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            // From the wait in the queue to the acknowledgement.
            let span = ChildSpan::start(|| {
                SpanBuilder::from_name("XADD")
                    .with_kind(SpanKind::Client)
                    .with_attributes([
                        KeyValue::new("db.system.name", "redis"),
                        KeyValue::new("db.operation.name", "XADD"),
                    ])
            });
            let mut len = inner.len.subscribe();
            let sent = len.wait_for(|_| !is_awaited());
            let is_late = timeout(DELIVERY_DEADLINE, sent).await.is_err();
            if is_late {
                inner.is_responsive.store(false, Ordering::Release);
            }
            span.end(|span| {
                if is_late {
                    trace::fail(span, "timeout");
                }
            });
        })
    }
}

impl<T> OutboxState<T> {
    fn count(&self) -> usize {
        self.state.lock().unsent.len()
    }

    /// Wakes the requests that wait. They look at the state while they hold the lock of `len`: so none takes that
    /// lock while it holds the state.
    fn changed(&self, state: MutexGuard<'_, OutboxItems<T>>) {
        drop(state);
        self.len.send_modify(|len| *len = self.count());
    }
}

impl<T: Copy + Eq + Hash> OutboxItems<T> {
    fn push(&mut self, item: T) {
        if self.unsent.insert(item, false) != Some(false) {
            self.queue.push_back(item);
        }
    }

    /// The next item to offer.
    fn pop(&mut self) -> Option<T> {
        while let Some(item) = self.queue.pop_front() {
            if self.unsent.contains_key(&item) {
                return Some(item);
            }
        }
        while let Some(item) = self.requeued.pop_front() {
            if self.unsent.get_mut(&item).is_some_and(mem::take) {
                return Some(item);
            }
        }
        None
    }

    fn offer<C>(&mut self, most: usize, load: impl Fn(&T) -> Option<C>) -> Vec<(T, C)> {
        for item in self.offered.drain(..).rev() {
            self.queue.push_front(item);
        }
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(item) = self.pop()
        {
            if let Some(content) = load(&item) {
                self.offered.push(item);
                batch.push((item, content));
            } else {
                self.unsent.remove(&item);
            }
        }
        batch
    }

    fn mark_found(&mut self, item: &T) {
        let hash = self.hash(item);
        if let Some(found) = &mut self.found {
            found.insert(hash);
        }
    }

    fn hash(&self, item: &T) -> u64 {
        self.hasher.hash_one(item)
    }
}

impl RevocationPublisher for Outbox<RevocationIndex> {
    fn publish(&self, revocation: &Revocation, is_unpublished: bool) -> Delivered {
        if is_unpublished {
            self.push(revocation.index());
        }
        self.delivered(revocation.index(), is_unpublished)
    }

    fn is_pending(&self, revocation: &Revocation) -> bool {
        self.0.state.lock().unsent.contains_key(&revocation.index())
    }

    fn pending(&self) -> usize {
        self.len()
    }
}

#[cfg(test)]
mod tests;
