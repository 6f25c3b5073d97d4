//! The stages of the process: serving, shutting down, draining.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The stages of a process that stops gracefully. Clones share one state, so that every gateway of
/// a process stops with it.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    stage: watch::Sender<Stage>,
    /// Whether the stage is `ShuttingDown` or later. Every request reads this and the next one, without a
    /// lock.
    shutting_down: AtomicBool,
    /// Whether the stage is `Draining`.
    draining: AtomicBool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Serving,
    ShuttingDown,
    Draining,
}

impl Lifecycle {
    /// From now on the replica is not ready, so that load balancers stop sending requests, and every
    /// response ends its connection.
    pub fn begin_shutdown(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
        self.enter(Stage::ShuttingDown);
    }

    /// From now on new requests are refused.
    pub fn drain(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
        self.0.draining.store(true, Ordering::Release);
        self.enter(Stage::Draining);
    }

    /// Whether the process is about to stop.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.shutting_down.load(Ordering::Acquire)
    }

    /// Whether new requests are refused.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Waits until new requests are refused.
    pub async fn drained(&self) {
        let mut stage = self.0.stage.subscribe();
        // Fails only without a sender, which `self` holds.
        let _ = stage.wait_for(|stage| *stage == Stage::Draining).await;
    }

    fn enter(&self, next: Stage) {
        self.0.stage.send_if_modified(|stage| {
            let is_later = next > *stage;
            *stage = next.max(*stage);
            is_later
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clones_share_the_stage_and_stages_only_advance() {
        let lifecycle = Lifecycle::default();
        let other = lifecycle.clone();
        assert!(!other.is_shutting_down() && !other.is_draining());
        lifecycle.begin_shutdown();
        assert!(other.is_shutting_down() && !other.is_draining());
        let waiting = tokio::spawn({
            let other = other.clone();
            async move { other.drained().await }
        });
        lifecycle.drain();
        waiting.await.expect("drained");
        lifecycle.begin_shutdown();
        assert!(other.is_shutting_down() && other.is_draining());
        other.drained().await;
    }
}
