//! What is still to be told to the other replicas.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::RedisFault;
use crate::gateway::revocations::{Delivery, Revocation, Revocations};
use crate::gateway::session_ends::{Delivered, Replicas};
use crate::telemetry::metrics::ReplicaFigures;

/// The longest that a logout waits until the others are told. Redis takes less than a millisecond;
/// once it took longer, no logout waits until it answers again.
const PATIENCE: Duration = Duration::from_millis(250);

/// What became of one revocation that was offered to Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sent {
    /// Told to whoever is there, and kept for the others.
    Kept,
    /// Told to whoever is there, and not kept.
    Told(RedisFault),
    /// Neither.
    Refused(RedisFault),
}

impl Sent {
    /// Why it is not kept.
    pub(super) fn refusal(&self) -> Option<&RedisFault> {
        match self {
            Self::Kept => None,
            Self::Told(fault) | Self::Refused(fault) => Some(fault),
        }
    }
}

impl From<&Sent> for Delivery {
    fn from(sent: &Sent) -> Self {
        match sent {
            Sent::Kept => Self::Stored,
            Sent::Told(_) => Self::Published,
            Sent::Refused(_) => Self::Refused,
        }
    }
}

/// Takes from the table of revocations what is to be told, and lets logouts wait for it.
pub struct Outbox {
    revocations: Arc<Revocations>,
    /// How many are still to be told; written after every change.
    pending: watch::Sender<usize>,
    filled: Notify,
    /// Whether it makes sense to wait.
    prompt: Arc<AtomicBool>,
    figures: ReplicaFigures,
}

impl Outbox {
    pub(super) fn new(revocations: Arc<Revocations>, figures: ReplicaFigures) -> Self {
        Self {
            revocations,
            pending: watch::Sender::new(0),
            filled: Notify::new(),
            prompt: Arc::default(),
            figures,
        }
    }

    /// Over when there is nothing left to tell.
    pub async fn emptied(&self) {
        let mut pending = self.pending.subscribe();
        // The sender lives as long as `self` does.
        let _ = pending.wait_for(|pending| *pending == 0).await;
    }

    pub(super) fn connected(&self) {
        self.revocations.offer_all_again();
        self.prompt.store(true, Ordering::Release);
    }

    pub(super) fn disconnected(&self) {
        self.prompt.store(false, Ordering::Release);
    }

    /// The next to offer; empty where there is nothing. Until they are settled they still count.
    pub(super) fn take(&self, most: usize) -> Vec<Revocation> {
        self.revocations.offer(most)
    }

    /// What became of those taken.
    pub(super) fn settle(&self, taken: &[Revocation], results: &[Sent]) {
        let results = taken.iter().zip(results);
        self.revocations.settle(
            results
                .clone()
                .map(|(revocation, sent)| (*revocation, sent.into())),
        );
        let (mut told, mut kept_all) = (false, true);
        for (_, sent) in results {
            told |= !matches!(sent, Sent::Refused(_));
            if *sent == Sent::Kept {
                self.figures.sent();
            } else {
                self.figures.failed();
                kept_all = false;
            }
        }
        if told {
            self.prompt.store(true, Ordering::Release);
        }
        if kept_all {
            // What Redis refused before need not wait for the end of its pause.
            self.revocations.retry_refused();
        }
        self.changed();
    }

    /// Over when there is something to tell; after this pause also where it was refused before.
    pub(super) async fn wait(&self, pause: Duration) {
        if timeout(pause, self.filled.notified()).await.is_err() {
            self.revocations.retry_refused();
        }
        // Some may have expired in the meantime.
        self.changed();
    }

    fn changed(&self) {
        let pending = self.revocations.pending();
        self.pending.send_replace(pending);
        self.figures.outbox(pending);
    }
}

impl Replicas for Outbox {
    fn tell(&self, revocation: Revocation) -> Delivered {
        self.changed();
        self.filled.notify_one();
        if !self.prompt.load(Ordering::Acquire) {
            return Box::pin(std::future::ready(()));
        }
        let (prompt, revocations) = (Arc::clone(&self.prompt), Arc::clone(&self.revocations));
        let mut pending = self.pending.subscribe();
        Box::pin(async move {
            let told = pending.wait_for(|_| !revocations.is_awaited(&revocation));
            if timeout(PATIENCE, told).await.is_err() {
                prompt.store(false, Ordering::Release);
            }
        })
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("pending", &*self.pending.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
