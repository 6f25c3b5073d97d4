//! Whose turn it is on a connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::Marker;
use crate::http::connection::BodyFault;

/// Whose turn it is on a connection: ours, from the last byte of a request's headers to its
/// response, or the client's.
#[derive(Debug, Clone)]
pub struct Turn(Rc<State>);

#[derive(Debug)]
struct State {
    whose: Cell<Whose>,
    /// When the first byte of this turn came, where it is the client's.
    begun: Cell<Option<Instant>>,
    /// Why the current request's body cannot be read to its end.
    body_fault: Cell<Option<BodyFault>>,
    /// Whether the connection ends with the response to the current request.
    closing: Cell<bool>,
    leaving: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    marker: Marker,
}

/// Who has to do something next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Whose {
    /// The gateway.
    Ours,
    /// The client, who sent headers since then and still owes their body. It has a deadline of its
    /// own.
    Body(Instant),
    /// The client, since then; and whether it is the connection's first request that is waited for.
    Theirs { since: Instant, first: bool },
}

impl Turn {
    pub(super) fn of_a_new_connection(marker: Marker) -> Self {
        Self(Rc::new(State {
            whose: Cell::new(Whose::Theirs {
                since: Instant::now(),
                first: true,
            }),
            begun: Cell::default(),
            body_fault: Cell::default(),
            closing: Cell::default(),
            leaving: Cell::default(),
            waker: RefCell::default(),
            marker,
        }))
    }

    /// Whose turn it is.
    pub(in crate::http) fn whose(&self) -> Whose {
        self.0.whose.get()
    }

    /// The headers of a request are there, or its body.
    pub(in crate::http) fn take(&self) {
        self.0.whose.set(Whose::Ours);
        self.0.leaving.set(false);
    }

    /// The body is still to come.
    pub(in crate::http) fn lend(&self, now: Instant) {
        self.0.whose.set(Whose::Body(now));
    }

    /// The request has its response, as of now.
    pub(in crate::http) fn pass(&self, now: Instant) {
        self.0.whose.set(Whose::Theirs {
            since: now,
            first: false,
        });
        self.0.begun.set(None);
    }

    /// Something came from the client.
    pub(in crate::http) fn received(&self) {
        if matches!(self.whose(), Whose::Theirs { .. }) && self.0.begun.get().is_none() {
            self.0.begun.set(Some(Instant::now()));
        }
    }

    /// The body of the current request cannot be read to its end, for this reason.
    pub(in crate::http) fn break_off(&self, fault: BodyFault) {
        self.0.body_fault.set(Some(fault));
        self.close();
    }

    /// The connection ends with the response to the current request.
    pub(in crate::http) fn close(&self) {
        self.0.closing.set(true);
    }

    /// Whether the connection ends with the response to the current request.
    pub(in crate::http) fn is_closing(&self) -> bool {
        self.0.closing.get()
    }

    /// Why the body of the current request broke off, where the client is still there.
    pub(in crate::http) fn body_fault(&self) -> Option<BodyFault> {
        self.0.body_fault.get()
    }

    /// When the first byte of this turn came, where it is the client's.
    pub(in crate::http) fn begun(&self) -> Option<Instant> {
        self.0.begun.get()
    }

    /// Whether a request that is looked at now has certainly waited longer than this for the
    /// worker.
    pub(in crate::http) fn waited_longer_than(&self, bound: Duration) -> bool {
        let marker = self.0.marker.get();
        marker.is_some_and(|since| since.elapsed() > bound)
    }

    /// Who is to leave first, where anybody is: whoever never sent a whole request, or owes the
    /// rest of one, before whoever may come back with another; then by the time.
    pub(super) fn waiting(&self) -> Option<(bool, Instant)> {
        if self.0.leaving.get() {
            return None;
        }
        match self.whose() {
            Whose::Ours => None,
            Whose::Body(since) => Some((false, since)),
            Whose::Theirs { since, first } => Some((!first, since)),
        }
    }

    /// Asks the connection to leave, unless something has come on it meanwhile.
    pub(super) fn leave(&self) {
        self.0.leaving.set(true);
        if let Some(waker) = self.0.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Whether the connection has to leave. If not, the task is woken when it has.
    pub(in crate::http) fn is_leaving(&self, waker: &Waker) -> bool {
        let leaving = self.0.leaving.get() && self.whose() != Whose::Ours;
        if !leaving {
            let mut known = self.0.waker.borrow_mut();
            // A task's waker is the same nearly always, and to compare two costs nothing.
            if known.as_ref().is_none_or(|known| !known.will_wake(waker)) {
                *known = Some(waker.clone());
            }
        }
        leaving
    }

    /// Until the connection has to leave.
    pub async fn asked_to_leave(&self) {
        poll_fn(|cx| {
            if self.is_leaving(cx.waker()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
