//! What one connection is doing, known to its I/O, to the limiter and to the service.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tokio::time::Instant;

use super::framing::BodyFault;
use super::queue_delay::QueueDelay;
use super::{BodyError, ConnectionTimeouts};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// It waits for the first byte of a request.
    Idle,
    /// It receives the head of a request.
    ReadingHead {
        /// When the first byte of it came.
        began: Instant,
    },
    /// The handler of a request waits for its body. It has a deadline of its own.
    ReadingBody,
    /// A request is handled.
    Handling,
    /// The response is written.
    Writing,
}

/// The state of one connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionState(Rc<State>);

#[derive(Debug)]
struct State {
    phase: Cell<ConnectionPhase>,
    /// Since when the connection waits for its client, in every phase but `Handling`.
    waits_since: Cell<Instant>,
    /// Whether a request of this connection had a response.
    has_responded: Cell<bool>,
    /// Why the body of the current request cannot be read to its end.
    body_fault: Cell<Option<BodyFault>>,
    /// Whether the connection ends with the response to the current request.
    is_last_request: Cell<bool>,
    /// Whether the limiter wants the connection to be closed, unless a request comes before that.
    must_close: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    timeouts: ConnectionTimeouts,
    queue_delay: QueueDelay,
}

impl ConnectionState {
    /// The state of a connection that was just accepted.
    pub(super) fn new(timeouts: ConnectionTimeouts, queue_delay: QueueDelay) -> Self {
        Self(Rc::new(State {
            phase: Cell::new(ConnectionPhase::Idle),
            waits_since: Cell::new(Instant::now()),
            has_responded: Cell::default(),
            body_fault: Cell::default(),
            is_last_request: Cell::default(),
            must_close: Cell::default(),
            waker: RefCell::default(),
            timeouts,
            queue_delay,
        }))
    }

    pub(super) fn phase(&self) -> ConnectionPhase {
        self.0.phase.get()
    }

    /// How long the client may take.
    pub(super) fn timeouts(&self) -> &ConnectionTimeouts {
        &self.0.timeouts
    }

    /// Something came from the client.
    pub(super) fn received(&self) {
        if self.phase() == ConnectionPhase::Idle {
            let began = Instant::now();
            self.0.phase.set(ConnectionPhase::ReadingHead { began });
        }
    }

    /// The head of a request is complete, or its body is.
    pub(super) fn begin_handling(&self) {
        self.0.phase.set(ConnectionPhase::Handling);
        self.0.must_close.set(false);
    }

    /// The handler waits for the body, from `now` on.
    pub(super) fn begin_reading_body(&self, now: Instant) {
        self.0.phase.set(ConnectionPhase::ReadingBody);
        self.0.waits_since.set(now);
    }

    /// The service has made the response, at `now`.
    pub(super) fn begin_writing(&self, now: Instant) {
        self.0.phase.set(ConnectionPhase::Writing);
        self.0.waits_since.set(now);
        self.0.has_responded.set(true);
    }

    /// The response is written. The time since it was made counts as idle.
    pub(super) fn end_writing(&self) {
        if self.phase() == ConnectionPhase::Writing {
            self.0.phase.set(ConnectionPhase::Idle);
        }
    }

    /// The body of the current request cannot be read to its end. The connection ends with the
    /// response.
    pub(super) fn break_off_body(&self, fault: BodyFault) {
        self.0.body_fault.set(Some(fault));
        self.end_with_response();
    }

    /// Why the body of the current request broke off, where the client is not the one who left.
    pub(super) fn body_error(&self) -> Option<BodyError> {
        self.0.body_fault.get().map(BodyError::from)
    }

    /// The connection ends with the response to the current request.
    pub(super) fn end_with_response(&self) {
        self.0.is_last_request.set(true);
    }

    /// Whether the connection ends with the response to the current request.
    pub(super) fn ends_with_response(&self) -> bool {
        self.0.is_last_request.get()
    }

    /// Whether the client owes the rest of the first request. Only then can it be sent a response
    /// without a request: later, it could take that for the response to another request.
    pub(super) fn owes_first_request(&self) -> bool {
        matches!(self.phase(), ConnectionPhase::ReadingHead { .. }) && !self.0.has_responded.get()
    }

    /// When the connection ends unless the client does something; `None` where it does not wait
    /// for the client, or the handler of the request sees to it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let timeouts = self.timeouts();
        let since = self.0.waits_since.get();
        match self.phase() {
            ConnectionPhase::Idle | ConnectionPhase::Writing if self.0.has_responded.get() => {
                Some(since + timeouts.idle)
            }
            ConnectionPhase::Idle | ConnectionPhase::Writing => Some(since + timeouts.head),
            ConnectionPhase::ReadingHead { began } => Some(began + timeouts.head),
            ConnectionPhase::ReadingBody | ConnectionPhase::Handling => None,
        }
    }

    /// Whether the current request has certainly waited too long for its worker.
    pub(super) fn is_overloaded(&self) -> bool {
        self.0.queue_delay.exceeds(self.timeouts().queue_delay)
    }

    /// The connection with the lowest rank is closed first; `None` where it must not be closed.
    /// Connections without a complete request come before those that may send another one.
    pub(super) fn eviction_rank(&self) -> Option<(bool, Instant)> {
        if self.0.must_close.get() {
            return None;
        }
        let since = self.0.waits_since.get();
        match self.phase() {
            ConnectionPhase::Handling => None,
            ConnectionPhase::ReadingBody => Some((false, since)),
            ConnectionPhase::Idle
            | ConnectionPhase::ReadingHead { .. }
            | ConnectionPhase::Writing => Some((self.0.has_responded.get(), since)),
        }
    }

    /// Asks for the connection to be closed, unless the head of a request is complete before that.
    pub(super) fn close(&self) {
        self.0.must_close.set(true);
        if let Some(waker) = self.0.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Whether the connection must be closed. If not, the task is woken when it must.
    pub(super) fn must_close(&self, waker: &Waker) -> bool {
        let must_close = self.0.must_close.get() && self.phase() != ConnectionPhase::Handling;
        if !must_close {
            let mut known = self.0.waker.borrow_mut();
            // A task nearly always has the same waker, and the comparison is cheaper than a clone.
            if known.as_ref().is_none_or(|known| !known.will_wake(waker)) {
                *known = Some(waker.clone());
            }
        }
        must_close
    }

    /// Waits until the connection must be closed.
    pub(super) async fn closed(&self) {
        poll_fn(|cx| {
            if self.must_close(cx.waker()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
