//! How long requests wait for their worker.
//!
//! `tower::load_shed` sheds by the number of requests in progress. It does not see requests that
//! wait in the runtime's queue, and those are what an overloaded worker has.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often a worker without delay is measured.
const INTERVAL: Duration = Duration::from_millis(20);

/// When the marker task that is in the worker's queue now was put there; `None` while the worker
/// has no delay.
type Marker = Cell<Option<Instant>>;

/// Measures the delay of a worker's queue with a marker task.
///
/// The queue holds each connection with an event once, in their order. A request that is handled
/// while the marker is in the queue was queued before it, so it has waited longer than the marker.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueDelay(Rc<Marker>);

impl QueueDelay {
    /// Whether the request that is handled now has certainly waited longer than this.
    pub(super) fn exceeds(&self, limit: Duration) -> bool {
        let queued_at = self.0.get();
        queued_at.is_some_and(|queued_at| queued_at.elapsed() > limit)
    }

    /// Measures until all clones of this are dropped. A delay below `threshold` is none.
    ///
    /// No marker is queued until a timer fires late, and the first late timer refuses no request:
    /// a machine that paused for a moment is not overloaded.
    pub(super) fn measure(&self, threshold: Duration) -> impl Future<Output = ()> + use<> {
        measure(Rc::downgrade(&self.0), threshold)
    }
}

async fn measure(marker: Weak<Marker>, threshold: Duration) {
    loop {
        let due = Instant::now() + INTERVAL;
        sleep(INTERVAL).await;
        let mut delay = due.elapsed();
        loop {
            let Some(marker) = marker.upgrade() else {
                return;
            };
            if delay < threshold {
                marker.set(None);
                break;
            }
            let queued_at = Instant::now();
            marker.set(Some(queued_at));
            drop(marker);
            tokio::task::yield_now().await;
            delay = queued_at.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn a_request_is_late_while_a_marker_from_before_it_is_still_queued() {
        const THRESHOLD: Duration = Duration::from_millis(5);
        let queue_delay = QueueDelay::default();
        let is_late = || queue_delay.exceeds(THRESHOLD);
        let mut measuring = Box::pin(queue_delay.measure(THRESHOLD));
        let mut cx = Context::from_waker(Waker::noop());
        let mut measure = || measuring.as_mut().poll(&mut cx);

        assert_eq!(measure(), Poll::Pending);
        assert!(!is_late(), "nothing has been measured");
        // The thread pauses; the timer fires only after the runtime has looked at it.
        std::thread::sleep(10 * THRESHOLD);
        tokio::time::sleep(THRESHOLD).await;
        assert_eq!(measure(), Poll::Pending);
        assert!(!is_late(), "the marker has only just been queued");
        std::thread::sleep(2 * THRESHOLD);
        assert!(is_late());
        // The marker is late as well, so another one takes its place, without delay.
        assert_eq!(measure(), Poll::Pending);
        assert!(!is_late());
    }

    #[tokio::test(start_paused = true)]
    async fn measuring_ends_with_the_last_owner() {
        let queue_delay = QueueDelay::default();
        let measuring = queue_delay.measure(Duration::from_millis(5));
        drop(queue_delay);
        let ended = tokio::time::timeout(Duration::from_secs(1), measuring).await;
        assert!(ended.is_ok());
    }
}
