//! The stages of the process: serving, shutting down, draining.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The stages of a process that stops gracefully. Clones share one state, so that every gateway of
/// a process stops with it.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle(Arc<LifecycleState>);

#[derive(Debug, Default)]
struct LifecycleState {
    /// Every request reads this and the next one, without a lock.
    shutting_down: AtomicBool,
    draining: AtomicBool,
}

impl Lifecycle {
    /// From now on the replica is not ready, so that load balancers stop sending requests, and every
    /// response ends its connection.
    pub fn begin_shutdown(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
    }

    /// From now on new requests are refused.
    pub fn drain(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
        self.0.draining.store(true, Ordering::Release);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_stage_and_stages_only_advance() {
        let lifecycle = Lifecycle::default();
        let other = lifecycle.clone();
        assert!(!other.is_shutting_down() && !other.is_draining());
        lifecycle.begin_shutdown();
        assert!(other.is_shutting_down() && !other.is_draining());
        lifecycle.drain();
        lifecycle.begin_shutdown();
        assert!(other.is_shutting_down() && other.is_draining());
    }
}
