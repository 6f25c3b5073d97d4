//! The revocations that are not yet sent to the other replicas.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iam_adapters::Moment;
use iam_adapters::trace::{self, ChildSpan};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::RedisFault;
use crate::gateway::revocations::{Delivery, Revocation, Revocations};
use crate::gateway::session_revoker::{Delivered, Replicas};
use crate::telemetry::metrics::ReplicaMetrics;

/// How long a logout waits until its revocation is sent. Redis takes less than a millisecond; after a
/// timeout no logout waits until Redis responds again.
const DELIVERY_DEADLINE: Duration = Duration::from_millis(250);

/// The unsent revocations in the table of revocations, and the logouts that wait for them.
pub struct PendingQueue {
    revocations: Arc<Revocations>,
    /// Their number; updated after every change.
    pending: watch::Sender<usize>,
    new_revocation: Notify,
    /// Whether Redis responds in time, so that logouts wait.
    responsive: Arc<AtomicBool>,
    metrics: ReplicaMetrics,
}

impl PendingQueue {
    pub(super) fn new(revocations: Arc<Revocations>, metrics: ReplicaMetrics) -> Self {
        Self {
            revocations,
            pending: watch::Sender::new(0),
            new_revocation: Notify::new(),
            responsive: Arc::default(),
            metrics,
        }
    }

    /// Waits until no revocation is pending.
    pub async fn emptied(&self) {
        let mut pending = self.pending.subscribe();
        // Fails only if the sender is dropped, which `self` owns.
        let _ = pending.wait_for(|pending| *pending == 0).await;
    }

    pub(super) fn connected(&self) {
        self.revocations.offer_all_again();
        self.responsive.store(true, Ordering::Release);
    }

    pub(super) fn disconnected(&self) {
        self.responsive.store(false, Ordering::Release);
    }

    /// The next revocations to send; empty if there are none. They stay pending until they are settled.
    pub(super) fn take(&self, most: usize) -> Vec<Revocation> {
        self.revocations.offer(most)
    }

    /// Records the results of sending.
    pub(super) fn settle(&self, taken: &[Revocation], results: &[Result<(), RedisFault>]) {
        let delivery = |result: &Result<(), RedisFault>| match result {
            Ok(()) => Delivery::Stored,
            Err(_) => Delivery::Refused,
        };
        let settled = taken.iter().zip(results);
        self.revocations
            .settle(settled.map(|(revocation, result)| (*revocation, delivery(result))));
        for result in results {
            let counter = match result {
                Ok(()) => &self.metrics.sent,
                Err(_) => &self.metrics.failed,
            };
            counter.inc();
        }
        if results.iter().any(Result::is_ok) {
            self.responsive.store(true, Ordering::Release);
        }
        if results.iter().all(Result::is_ok) {
            // Revocations that Redis refused before need not wait for the end of the pause.
            self.revocations.retry_refused();
        }
        self.changed();
    }

    /// Queues the revocations again that the stream has lost; returns their number.
    pub(super) fn requeue_missing(&self, now: Moment) -> usize {
        let count = self.revocations.requeue_missing(now);
        self.notify_added();
        count
    }

    /// Waits for a new revocation, at most for `pause`; then refused ones are sent again.
    pub(super) async fn wait(&self, pause: Duration) {
        if timeout(pause, self.new_revocation.notified())
            .await
            .is_err()
        {
            self.revocations.retry_refused();
        }
        // Some may have expired meanwhile.
        self.changed();
    }

    /// Some revocations may be sent: wakes the logouts that wait.
    fn changed(&self) {
        self.pending.send_replace(self.count());
    }

    /// A revocation was added. No logout has to be woken: with many of them, each new one would wake
    /// all the others.
    fn notify_added(&self) {
        self.pending.send_if_modified(|pending| {
            *pending = self.count();
            false
        });
        self.new_revocation.notify_one();
    }

    fn count(&self) -> usize {
        let pending = self.revocations.pending();
        self.metrics.pending(pending);
        pending
    }
}

impl Replicas for PendingQueue {
    fn send(&self, revocation: Revocation) -> Delivered {
        self.notify_added();
        if !self.responsive.load(Ordering::Acquire) {
            return Box::pin(std::future::ready(()));
        }
        let (responsive, revocations) =
            (Arc::clone(&self.responsive), Arc::clone(&self.revocations));
        let mut pending = self.pending.subscribe();
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
            let sent = pending.wait_for(|_| !revocations.is_awaited(&revocation));
            let is_late = timeout(DELIVERY_DEADLINE, sent).await.is_err();
            if is_late {
                responsive.store(false, Ordering::Release);
            }
            span.end(|span| {
                if is_late {
                    trace::fail(span, "timeout");
                }
            });
        })
    }
}

impl fmt::Debug for PendingQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingQueue")
            .field("pending", &*self.pending.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
