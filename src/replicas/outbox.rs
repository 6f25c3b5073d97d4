//! What is still to be told to the other replicas.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;

use super::RedisFault;
use crate::gateway::replicas::{Replicas, Told};
use crate::gateway::revocations::Revocation;
use crate::telemetry::metrics::ReplicaFigures;

/// The longest that a logout waits until the others are told. Redis takes less than a millisecond;
/// once it took longer, nobody waits until it answers again.
const PATIENCE: Duration = Duration::from_millis(250);

/// The most that is kept for a Redis that is away, in some 10 MB: the newest.
const ROOM: usize = 100_000;

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

struct Item {
    revocation: Revocation,
    waiting: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Items {
    /// Not yet offered over this connection.
    fresh: VecDeque<Item>,
    /// Offered, and refused.
    refused: VecDeque<Item>,
    /// Being offered.
    offered: VecDeque<Item>,
    /// The refused may be offered again.
    again: bool,
}

impl Items {
    fn count(&self) -> usize {
        self.fresh.len() + self.refused.len() + self.offered.len()
    }
}

/// What is still to be told, and who waits for it.
pub struct Outbox {
    items: Mutex<Items>,
    count: watch::Sender<usize>,
    filled: Notify,
    /// Whether it makes sense to wait.
    prompt: Arc<AtomicBool>,
    room: usize,
    figures: ReplicaFigures,
}

impl Outbox {
    pub(super) fn new(figures: ReplicaFigures) -> Self {
        Self {
            items: Mutex::default(),
            count: watch::Sender::new(0),
            filled: Notify::new(),
            prompt: Arc::default(),
            room: ROOM,
            figures,
        }
    }

    /// Over when there is nothing left to tell.
    pub async fn emptied(&self) {
        let mut count = self.count.subscribe();
        // The sender lives as long as `self` does.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    pub(super) fn connected(&self) {
        self.change(|items| {
            // What the last connection took with it comes first again.
            let mut all = std::mem::take(&mut items.offered);
            all.append(&mut items.refused);
            all.append(&mut items.fresh);
            items.fresh = all;
        });
        self.prompt.store(true, Ordering::Release);
    }

    pub(super) fn disconnected(&self) {
        self.prompt.store(false, Ordering::Release);
    }

    /// The next to offer; empty where there is nothing. Until they are settled they still count.
    pub(super) fn take(&self, most: usize) -> Vec<Revocation> {
        self.change(|items| {
            let from = if items.fresh.is_empty() && std::mem::take(&mut items.again) {
                &mut items.refused
            } else {
                &mut items.fresh
            };
            let count = from.len().min(most);
            items.offered.extend(from.drain(..count));
            items.offered.iter().map(|item| item.revocation).collect()
        })
    }

    /// What became of those taken, in their order.
    pub(super) fn settle(&self, results: &[Sent]) {
        let mut prompt = false;
        self.change(|items| {
            let offered = std::mem::take(&mut items.offered);
            for (mut item, result) in offered.into_iter().zip(results) {
                if !matches!(result, Sent::Refused(_)) {
                    prompt = true;
                    // Whoever waited may have given up.
                    let _ = item.waiting.take().map(|waiting| waiting.send(()));
                }
                if *result == Sent::Kept {
                    self.figures.sent();
                } else {
                    self.figures.failed();
                    items.refused.push_back(item);
                }
            }
        });
        if prompt {
            self.prompt.store(true, Ordering::Release);
        }
    }

    /// Over when there is something to tell; after this pause also where it was refused before.
    pub(super) async fn wait(&self, pause: Duration) {
        if timeout(pause, self.filled.notified()).await.is_err() {
            self.change(|items| items.again = true);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Items) -> T) -> T {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut items);
        while items.count() > self.room {
            let oldest = items.refused.pop_front();
            if oldest.or_else(|| items.fresh.pop_front()).is_none() {
                break;
            }
            self.figures.dropped();
        }
        let count = items.count();
        self.count.send_replace(count);
        self.figures.outbox(count);
        result
    }
}

impl Replicas for Outbox {
    fn tell(&self, revocation: Revocation) -> Told {
        let prompt = self.prompt.load(Ordering::Acquire);
        let (sender, told) = oneshot::channel();
        self.change(|items| {
            items.fresh.push_back(Item {
                revocation,
                waiting: prompt.then_some(sender),
            });
        });
        self.filled.notify_one();
        if !prompt {
            return Box::pin(std::future::ready(()));
        }
        let prompt = Arc::clone(&self.prompt);
        Box::pin(async move {
            if timeout(PATIENCE, told).await.is_err() {
                prompt.store(false, Ordering::Release);
            }
        })
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("count", &*self.count.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
