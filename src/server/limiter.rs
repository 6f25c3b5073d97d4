//! The limit of open connections.
//!
//! actix-server's `max_concurrent_connections` and `tower::limit::ConcurrencyLimit` only make new
//! connections wait: with them, idle connections keep clients out that have something to send.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::queue_delay::QueueDelay;
use super::state::ConnectionState;
use super::{ConnectionTimeouts, Hooks, Shed};

/// Tracks the open connections of one worker and closes idle ones when the limit is near. A
/// connection with a request in progress is never closed.
pub(super) struct ConnectionLimiter {
    limit: usize,
    connections: RefCell<BTreeMap<u64, ConnectionState>>,
    next_id: Cell<u64>,
    /// How many connections were accepted near the limit for which none has been closed yet.
    to_close: Cell<usize>,
    timeouts: ConnectionTimeouts,
    queue_delay: QueueDelay,
    hooks: Arc<dyn Hooks>,
}

impl ConnectionLimiter {
    /// A limiter without connections.
    pub(super) fn new(
        limit: usize,
        timeouts: ConnectionTimeouts,
        queue_delay: QueueDelay,
        hooks: Arc<dyn Hooks>,
    ) -> Rc<Self> {
        Rc::new(Self {
            limit,
            connections: RefCell::default(),
            next_id: Cell::new(0),
            to_close: Cell::new(0),
            timeouts,
            queue_delay,
            hooks,
        })
    }

    /// The permit of a new connection; `None` at the limit.
    ///
    /// From seven eighths of the limit on, one connection is closed for each new one: the one that
    /// has waited for its client the longest. They are closed in batches, so that the search costs
    /// next to nothing for each.
    pub(super) fn acquire(self: &Rc<Self>) -> Option<ConnectionPermit> {
        let open = self.connections.borrow().len();
        let spare = (self.limit / 8).max(1);
        if open + spare >= self.limit {
            self.to_close.set(self.to_close.get() + 1);
            if self.to_close.get() >= spare.div_ceil(4) {
                self.close_idle(self.to_close.take());
            }
        }
        if open >= self.limit {
            self.hooks.connection_shed(Shed::Refused);
            return None;
        }
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let state = ConnectionState::new(self.timeouts, self.queue_delay.clone());
        self.connections.borrow_mut().insert(id, state.clone());
        Some(ConnectionPermit {
            limiter: Rc::clone(self),
            id,
            state,
        })
    }

    fn close_idle(&self, count: usize) {
        let connections = self.connections.borrow();
        let mut idle: Vec<_> = connections
            .values()
            .filter_map(|state| state.eviction_rank().map(|rank| (rank, state)))
            .collect();
        if count < idle.len() {
            idle.select_nth_unstable_by_key(count, |(rank, _)| *rank);
        }
        for (_, state) in idle.into_iter().take(count) {
            state.close();
            self.hooks.connection_shed(Shed::Idle);
        }
    }
}

/// The permit of one connection. It counts against the limit until it is dropped.
pub(super) struct ConnectionPermit {
    limiter: Rc<ConnectionLimiter>,
    id: u64,
    state: ConnectionState,
}

impl ConnectionPermit {
    /// The state of the connection.
    pub(super) fn state(&self) -> &ConnectionState {
        &self.state
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.connections.borrow_mut().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;
    use std::time::Duration;

    use actix_web::HttpResponse;
    use tokio::time::{Instant, advance};

    use super::*;
    use crate::server::Refusal;

    #[derive(Default)]
    struct Refused(AtomicUsize);

    impl Hooks for Refused {
        fn connection_shed(&self, reason: Shed) {
            self.0
                .fetch_add(usize::from(reason == Shed::Refused), Ordering::Relaxed);
        }

        fn refusal(&self, _: Option<SocketAddr>, _: Refusal) -> HttpResponse {
            HttpResponse::ServiceUnavailable().finish()
        }
    }

    fn limiter_with(limit: usize, hooks: Arc<Refused>) -> Rc<ConnectionLimiter> {
        let timeouts = ConnectionTimeouts::default();
        ConnectionLimiter::new(limit, timeouts, QueueDelay::default(), hooks)
    }

    fn limiter(limit: usize) -> Rc<ConnectionLimiter> {
        limiter_with(limit, Arc::default())
    }

    fn must_close(permit: &ConnectionPermit) -> bool {
        permit.state().must_close(Waker::noop())
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_can_be_acquired_again_after_it_was_dropped() {
        let refused = Arc::<Refused>::default();
        let limiter = limiter_with(2, Arc::clone(&refused));
        let permits = [limiter.acquire(), limiter.acquire()].map(|permit| permit.expect("room"));
        for permit in &permits {
            permit.state().begin_handling();
        }
        assert!(limiter.acquire().is_none());
        drop(permits);
        assert!(limiter.acquire().is_some());
        assert_eq!(refused.0.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_waiting_is_closed_first_and_unserved_connections_before_served_ones() {
        let limiter = limiter(5);
        let acquire = async || {
            advance(Duration::from_secs(1)).await;
            limiter.acquire().expect("room")
        };
        let (served, busy, silent, sending) = (
            acquire().await,
            acquire().await,
            acquire().await,
            acquire().await,
        );
        served.state().begin_writing(Instant::now());
        busy.state().begin_handling();
        sending.state().begin_handling();
        sending.state().begin_reading_body(Instant::now());
        let closing = || [&served, &busy, &silent, &sending].map(must_close);
        assert_eq!(closing(), [false; 4]);
        for expected in [
            [false, false, true, false],
            [false, false, true, true],
            [true, false, true, true],
            [true, false, true, true],
        ] {
            // New connections whose requests are complete at once.
            let new = limiter.acquire();
            if let Some(new) = &new {
                new.state().begin_handling();
            }
            assert_eq!(closing(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_receives_a_request_before_it_is_closed_stays_open() {
        let limiter = limiter(2);
        let first = limiter.acquire().expect("room");
        let second = limiter.acquire().expect("room");
        second.state().begin_handling();
        assert!(must_close(&first));
        first.state().begin_handling();
        first.state().begin_writing(Instant::now());
        assert!(!must_close(&first));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_closed_in_batches_and_one_for_each_new_one() {
        let limiter = limiter(800);
        let mut permits: Vec<_> = (0..100).map_while(|_| limiter.acquire()).collect();
        advance(Duration::from_secs(1)).await;
        permits.extend((0..600).map_while(|_| limiter.acquire()));
        let closing = |permits: &[ConnectionPermit]| {
            permits.iter().filter(|permit| must_close(permit)).count()
        };
        assert_eq!((permits.len(), closing(&permits)), (700, 0));
        permits.extend((0..24).map_while(|_| limiter.acquire()));
        assert_eq!(closing(&permits), 0, "the batch is not complete");
        permits.extend((0..76).map_while(|_| limiter.acquire()));
        assert_eq!((permits.len(), closing(&permits)), (800, 100));
        assert!(permits[..100].iter().all(must_close), "not the oldest");
    }
}
