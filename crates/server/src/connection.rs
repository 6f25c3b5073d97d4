//! The open connections of one worker: what each is doing, how many there may be, how much memory
//! their requests may hold, how long requests wait for the worker, and the body of a request, of
//! bounded size and within a bounded time.
//!
//! actix-server's `max_concurrent_connections` and `tower::limit::ConcurrencyLimit` only make new
//! connections wait: with them, idle connections block clients that have a request.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use actix_http::{ConnectionType, Request, Response};
use actix_service::Service;
use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::{ConnectionEvents, ConnectionTimeouts, ShedReason};

/// How long actix-http waits for another request of a connection.
const RELEASE_AFTER: Duration = Duration::from_secs(1);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// It waits for the first byte of a request.
    Idle,
    /// It receives the head of a request, or what is left of a body that nothing waits for.
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

/// The state of one connection.
pub(super) struct ConnectionState {
    phase: Cell<ConnectionPhase>,
    /// Since when the connection waits for its client, in every phase but `Handling`.
    waits_since: Cell<Instant>,
    /// Whether a request of this connection had a response.
    has_responded: Cell<bool>,
    /// Whether the current request has arrived to its end.
    is_whole: Cell<bool>,
    /// Why the body of the current request cannot be read to its end.
    body_fault: Cell<Option<BodyError>>,
    /// Whether the connection ends with the response to the current request.
    is_last_request: Cell<bool>,
    /// Whether the limiter wants the connection to be closed, unless a request comes before that.
    must_close: Cell<bool>,
    /// Whether the connection stays open although its part of actix-http ends.
    is_released: Cell<bool>,
    /// The bytes of its longest request so far: its buffers keep their size until they are released.
    held: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    /// It holds this state too, until the permit of the connection is dropped.
    limiter: Rc<ConnectionLimiter>,
}

impl ConnectionState {
    fn new(limiter: Rc<ConnectionLimiter>) -> Self {
        Self {
            phase: Cell::new(ConnectionPhase::Idle),
            waits_since: Cell::new(Instant::now()),
            has_responded: Cell::default(),
            is_whole: Cell::default(),
            body_fault: Cell::default(),
            is_last_request: Cell::default(),
            must_close: Cell::default(),
            is_released: Cell::default(),
            held: Cell::default(),
            waker: RefCell::default(),
            limiter,
        }
    }

    /// How long the client may take.
    pub(super) fn timeouts(&self) -> &ConnectionTimeouts {
        &self.limiter.timeouts
    }

    pub(super) fn phase(&self) -> ConnectionPhase {
        self.phase.get()
    }

    /// Input was received.
    pub(super) fn received(&self) {
        if self.phase() == ConnectionPhase::Idle {
            let began = Instant::now();
            self.phase.set(ConnectionPhase::ReadingHead { began });
        }
    }

    /// The head of a request is complete, or its body is.
    pub(super) fn begin_handling(&self) {
        self.phase.set(ConnectionPhase::Handling);
        self.set_must_close(false);
    }

    /// Sets whether the current request has arrived to its end, so that nothing waits for the client.
    pub(super) fn set_whole(&self, is_whole: bool) {
        self.is_whole.set(is_whole);
    }

    fn set_must_close(&self, must_close: bool) {
        let (held, closing) = (self.held.get(), &self.limiter.closing);
        match (self.must_close.replace(must_close), must_close) {
            (false, true) => closing.set(closing.get() + held),
            (true, false) => closing.set(closing.get() - held),
            _ => {}
        }
    }

    fn hold(&self, bytes: usize) {
        let limiter = &self.limiter;
        let before = self.held.replace(bytes);
        limiter.held.set(limiter.held.get() - before + bytes);
        if self.must_close.get() {
            limiter.closing.set(limiter.closing.get() - before + bytes);
        }
    }

    /// The handler waits for the body, from `now` on.
    pub(super) fn begin_reading_body(&self, now: Instant) {
        self.phase.set(ConnectionPhase::ReadingBody);
        self.waits_since.set(now);
    }

    /// The service has made the response, at `now`.
    pub(super) fn begin_writing(&self, now: Instant) {
        self.phase.set(ConnectionPhase::Writing);
        self.waits_since.set(now);
        self.has_responded.set(true);
    }

    /// The response is written. The time since it was made counts as idle.
    pub(super) fn end_writing(&self) {
        if self.phase() == ConnectionPhase::Writing {
            self.phase.set(ConnectionPhase::Idle);
        }
    }

    /// The current request has arrived to its end, and its response is written. If a part of its body
    /// came after that, it was not the head of the next request, and the connection is idle from now on.
    pub(super) fn end_body(&self) {
        if matches!(self.phase(), ConnectionPhase::ReadingHead { .. }) {
            self.phase.set(ConnectionPhase::Idle);
            self.waits_since.set(Instant::now());
        }
    }

    /// The body of the current request cannot be read to its end. The connection ends with the
    /// response.
    pub(super) fn break_off_body(&self, fault: BodyError) {
        self.body_fault.set(Some(fault));
        self.is_last_request.set(true);
    }

    /// Whether the first request is incomplete. Only then can a response be sent without a request:
    /// later, the client could treat it as the response to another request.
    pub(super) fn awaits_first_request(&self) -> bool {
        matches!(self.phase(), ConnectionPhase::ReadingHead { .. }) && !self.has_responded.get()
    }

    /// actix-http's part of the connection ends, and its buffers with it.
    pub(super) fn release(&self) {
        self.is_released.set(true);
        self.hold(0);
    }

    /// The connection waits for a request without actix-http.
    pub(super) fn begin_waiting(&self) {
        self.is_released.set(false);
    }

    /// Whether the connection stays open although its part of actix-http ends.
    pub(super) fn is_released(&self) -> bool {
        self.is_released.get()
    }

    /// When actix-http's part of the connection ends, unless another request comes.
    pub(super) fn release_at(&self) -> Option<Instant> {
        let is_idle = self.phase() == ConnectionPhase::Idle && self.has_responded.get();
        is_idle.then(|| self.waits_since.get() + RELEASE_AFTER.min(self.timeouts().idle))
    }

    /// When the connection ends unless the client sends or accepts something. `None` while it does not
    /// wait for the client, or while the handler has its own deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let since = self.waits_since.get();
        match self.phase() {
            ConnectionPhase::Idle | ConnectionPhase::Writing if self.has_responded.get() => {
                Some(since + self.timeouts().idle)
            }
            ConnectionPhase::Idle | ConnectionPhase::Writing => Some(since + self.timeouts().head),
            ConnectionPhase::ReadingHead { began } => Some(began + self.timeouts().head),
            ConnectionPhase::ReadingBody | ConnectionPhase::Handling => None,
        }
    }

    /// The connection with the lowest rank is closed first; `None` where it must not be closed.
    /// Connections without a response come before those that had one.
    pub(super) fn eviction_rank(&self) -> Option<(bool, Instant)> {
        let can_close = !self.must_close.get() && self.phase() != ConnectionPhase::Handling;
        can_close.then(|| (self.has_responded.get(), self.waits_since.get()))
    }

    /// Asks for the connection to be closed, unless the head of a request is complete before that.
    pub(super) fn close(&self) {
        self.set_must_close(true);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Whether the connection must be closed. If not, the task is woken when it must.
    pub(super) fn must_close(&self, waker: &Waker) -> bool {
        let must_close = self.must_close.get() && self.phase() != ConnectionPhase::Handling;
        if !must_close {
            let mut known = self.waker.borrow_mut();
            // A task nearly always has the same waker, and the comparison is cheaper than a clone.
            if known.as_ref().is_none_or(|known| !known.will_wake(waker)) {
                *known = Some(waker.clone());
            }
        }
        must_close
    }

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

/// The limits of one worker's connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    pub(super) connections: usize,
    /// The most bytes of requests that all of them may hold.
    pub(super) request_bytes: usize,
}

/// Tracks the open connections of one worker, and closes idle ones when a limit is near. A
/// connection with a request in progress is never closed.
pub(super) struct ConnectionLimiter {
    limits: ConnectionLimits,
    /// The bytes of requests that the connections hold.
    held: Cell<usize>,
    /// Those of connections that must be closed.
    closing: Cell<usize>,
    connections: RefCell<BTreeMap<u64, Rc<ConnectionState>>>,
    next_id: Cell<u64>,
    /// How many connections were accepted near the limit for which none has been closed yet.
    to_close: Cell<usize>,
    timeouts: ConnectionTimeouts,
    queue_delay: QueueDelay,
    events: Arc<dyn ConnectionEvents>,
}

impl ConnectionLimiter {
    pub(super) fn new(
        limits: ConnectionLimits,
        timeouts: ConnectionTimeouts,
        queue_delay: QueueDelay,
        events: Arc<dyn ConnectionEvents>,
    ) -> Rc<Self> {
        Rc::new(Self {
            limits,
            held: Cell::default(),
            closing: Cell::default(),
            connections: RefCell::default(),
            next_id: Cell::new(0),
            to_close: Cell::new(0),
            timeouts,
            queue_delay,
            events,
        })
    }

    /// The permit of a new connection; `None` at the limit.
    ///
    /// From seven eighths of the limit on, one connection is closed for each new one: the one that
    /// has waited for its client the longest. They are closed in batches, so that the search costs
    /// next to nothing for each.
    pub(super) fn acquire(self: &Rc<Self>) -> Option<ConnectionPermit> {
        let (open, limit) = (self.connections.borrow().len(), self.limits.connections);
        let spare = (limit / 8).max(1);
        if open + spare >= limit {
            self.to_close.set(self.to_close.get() + 1);
            if self.to_close.get() >= spare.div_ceil(4) {
                self.close_idle(self.to_close.take());
            }
        }
        if open >= limit {
            self.events.connection_shed(ShedReason::Refused);
            return None;
        }
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let state = Rc::new(ConnectionState::new(Rc::clone(self)));
        let connections = &mut self.connections.borrow_mut();
        connections.insert(id, Rc::clone(&state));
        Some(ConnectionPermit { id, state })
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
            self.close(state);
        }
    }

    /// Closes connections until those that stay open hold an eighth less than they may. The ones with
    /// the longest requests are closed first, and of these the ones that have waited the longest.
    /// Returns whether any are being closed.
    fn close_largest(&self) -> bool {
        let mut staying = self.held.get() - self.closing.get();
        let mut are_closing = self.closing.get() > 0;
        if are_closing && staying <= self.limits.request_bytes {
            return true;
        }
        let enough = self.limits.request_bytes / 8 * 7;
        let connections = self.connections.borrow();
        let mut idle: Vec<_> = connections
            .values()
            .filter(|state| state.held.get() > 0)
            .filter_map(|state| Some((Reverse(state.held.get()), state.eviction_rank()?, state)))
            .collect();
        idle.sort_unstable_by_key(|(held, rank, _)| (*held, *rank));
        for (Reverse(held), _, state) in idle {
            if staying <= enough {
                break;
            }
            staying -= held;
            are_closing = true;
            self.close(state);
        }
        are_closing
    }

    fn close(&self, state: &ConnectionState) {
        state.close();
        self.events.connection_shed(ShedReason::Idle);
    }
}

/// The permit of one connection. It counts against the limit until it is dropped.
pub(super) struct ConnectionPermit {
    id: u64,
    state: Rc<ConnectionState>,
}

impl ConnectionPermit {
    pub(super) fn state(&self) -> &Rc<ConnectionState> {
        &self.state
    }

    /// Sets how many bytes of a request the connection holds.
    pub(super) fn hold(&self, bytes: usize) {
        if bytes > self.state.held.get() {
            self.state.hold(bytes);
        }
    }

    /// Whether the connection may receive this number of bytes now. If not, others are being closed for it, or
    /// it is itself. Requests that are being handled cannot be closed, and the IAM's limits bound them.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let limiter = &self.state.limiter;
        limiter.held.get() + bytes <= limiter.limits.request_bytes || !limiter.close_largest()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.state.hold(0);
        let limiter = &self.state.limiter;
        limiter.connections.borrow_mut().remove(&self.id);
    }
}

/// How often a worker without delay is measured.
const INTERVAL: Duration = Duration::from_millis(20);

/// Measures the delay of a worker's queue with a marker task.
///
/// `tower::load_shed` sheds by the number of requests in progress. It does not see requests that
/// wait in the runtime's queue, and those are what an overloaded worker has.
///
/// The queue holds each connection with an event once, in their order. A request that is handled
/// while the marker is in the queue was queued before it, so it has waited longer than the marker.
///
/// It is when the marker that is in the queue now was put there; `None` while the worker has no delay.
#[derive(Debug, Default)]
pub(super) struct QueueDelay(Rc<Cell<Option<Instant>>>);

impl QueueDelay {
    /// Whether the request that is handled now has certainly waited longer than this.
    pub(super) fn exceeds(&self, limit: Duration) -> bool {
        let queued_at = self.0.get();
        queued_at.is_some_and(|queued_at| queued_at.elapsed() > limit)
    }

    /// Measures until this is dropped. A delay below `threshold` is none.
    ///
    /// No marker is queued until a timer fires late, and the first late timer refuses no request:
    /// a machine that paused for a moment is not overloaded.
    pub(super) fn measure(&self, threshold: Duration) -> impl Future<Output = ()> + use<> {
        let marker = Rc::downgrade(&self.0);
        async move {
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
    }
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It did not arrive in time.
    Timeout,
    /// It has more bytes than it may have, or more chunk framing than data.
    TooLarge,
    /// The connection ended before the body did.
    Incomplete,
    /// Its chunks are not as RFC 9112 section 7.1 has them.
    MalformedChunks,
}

/// Reads the body of a request within [`ConnectionTimeouts::body`]. The extractors of actix-web
/// bound the size only: a client that sends a byte now and then occupies a connection for ever.
///
/// # Errors
///
/// [`BodyError`]. Unless the length was known before, the connection ends with the response: what
/// is left of the body is not read.
pub async fn read_body(
    request: &HttpRequest,
    payload: Payload,
    max_bytes: usize,
) -> Result<Bytes, BodyError> {
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max_bytes as u64) {
        return Err(BodyError::TooLarge);
    }
    let connection = request.conn_data::<Rc<ConnectionState>>();
    let limit = connection.map_or_else(
        || ConnectionTimeouts::default().body,
        |connection| connection.timeouts().body,
    );
    within(limit, connection, collect(payload, max_bytes)).await
}

/// Whether the request has certainly waited for its worker longer than
/// [`ConnectionTimeouts::queue_delay`]. To be asked when its body was read: then the connection can
/// serve the next request.
#[must_use]
pub fn is_overloaded(request: &HttpRequest) -> bool {
    request
        .conn_data::<Rc<ConnectionState>>()
        .is_some_and(|connection| {
            let limit = connection.timeouts().queue_delay;
            connection.limiter.queue_delay.exceeds(limit)
        })
}

/// Calls the application, and sets the connection's phase when it has made the response.
pub(super) fn respond<S, B>(
    request: Request,
    app: &S,
) -> impl Future<Output = Result<Response<B>, S::Error>> + use<S, B>
where
    S: Service<Request>,
    S::Response: Into<Response<B>>,
{
    let connection = request.conn_data::<Rc<ConnectionState>>().cloned();
    let response = app.call(request);
    async move {
        let mut response = response.await.map(Into::<Response<B>>::into);
        if let Some(connection) = connection {
            if let (true, Ok(response)) = (connection.is_last_request.get(), &mut response) {
                let head = response.head_mut();
                head.set_connection_type(ConnectionType::Close);
            }
            connection.begin_writing(Instant::now());
        }
        response
    }
}

async fn within(
    limit: Duration,
    connection: Option<&Rc<ConnectionState>>,
    reading: impl Future<Output = Result<Bytes, BodyError>>,
) -> Result<Bytes, BodyError> {
    // Nearly always the body has arrived already, and no timer is needed.
    let read = if connection.is_some_and(|connection| connection.is_whole.get()) {
        reading.await
    } else {
        if let Some(connection) = connection {
            connection.begin_reading_body(Instant::now());
        }
        let read = timeout(limit, reading).await;
        if let Some(connection) = connection {
            connection.begin_handling();
        }
        read.unwrap_or(Err(BodyError::Timeout))
    };
    read.map_err(|error| {
        let Some(connection) = connection else {
            return error;
        };
        connection.is_last_request.set(true);
        connection.body_fault.get().unwrap_or(error)
    })
}

/// Without a copy where the body comes in one piece, as it nearly always does.
async fn collect(mut payload: Payload, max_bytes: usize) -> Result<Bytes, BodyError> {
    let mut body = Bytes::new();
    while let Some(part) = payload.next().await {
        let part = part.map_err(|_| BodyError::Incomplete)?;
        if body.len() + part.len() > max_bytes {
            return Err(BodyError::TooLarge);
        }
        if body.is_empty() {
            body = part;
        } else {
            let mut joined = BytesMut::from(body);
            joined.extend_from_slice(&part);
            body = joined.freeze();
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Context;

    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use actix_web::{FromRequest as _, HttpResponse, dev};
    use futures_util::{FutureExt as _, Stream, stream};
    use tokio::io::{
        AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex,
    };
    use tokio::net::TcpListener;
    use tokio::time::advance;

    use super::*;
    use crate::ConnectionRefusal;
    use crate::deadline_io::{DeadlineIo, SharedIo};

    #[derive(Default)]
    struct Refused(AtomicUsize);

    impl ConnectionEvents for Refused {
        fn connection_shed(&self, reason: ShedReason) {
            self.0.fetch_add(
                usize::from(reason == ShedReason::Refused),
                Ordering::Relaxed,
            );
        }

        fn refusal(&self, _: Option<SocketAddr>, _: ConnectionRefusal) -> HttpResponse {
            HttpResponse::ServiceUnavailable().finish()
        }
    }

    fn limiter_with(connections: usize, events: Arc<Refused>) -> Rc<ConnectionLimiter> {
        let limit = ConnectionLimits {
            connections,
            request_bytes: 3 * 8192,
        };
        let timeouts = ConnectionTimeouts::default();
        ConnectionLimiter::new(limit, timeouts, QueueDelay::default(), events)
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

    /// The limiter and the state of a connection have each other.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_ended_leaves_the_limiter_to_its_worker() {
        let limiter = limiter(2);
        drop(limiter.acquire());
        assert_eq!(Rc::strong_count(&limiter), 1);
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
    async fn a_served_connection_is_not_closed_for_the_body_of_its_next_request() {
        let limiter = limiter(3);
        let served = limiter.acquire().expect("room");
        served.state().begin_writing(Instant::now());
        served.state().begin_handling();
        served.state().begin_reading_body(Instant::now());
        advance(Duration::from_secs(1)).await;
        let silent = limiter.acquire().expect("room");
        let _new = limiter.acquire().expect("room");
        assert_eq!([&served, &silent].map(must_close), [false, true]);
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

    /// The worker accepted many connections before the runtime reported the input of this one.
    #[tokio::test]
    async fn a_request_that_has_arrived_is_received_before_the_connection_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        for (request, expected) in [("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true), ("", false)] {
            let mut client = std::net::TcpStream::connect(address).expect("connected");
            let (accepted, _) = listener.accept().await.expect("accepted");
            let permit = limiter(20).acquire().expect("room");
            let io = DeadlineIo::new(Box::new(accepted), None, permit, Arc::<Refused>::default());
            let mut io = SharedIo::new(io);
            let mut buffer = BytesMut::with_capacity(8192);
            assert!(io.read_buf(&mut buffer).now_or_never().is_none());
            std::io::Write::write_all(&mut client, request.as_bytes()).expect("written");
            io.state().close();
            let received = io.read_buf(&mut buffer).await;
            assert_eq!(received.expect("read"), request.len());
            assert_eq!(io.state().phase() == ConnectionPhase::Handling, expected);
        }
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

    #[tokio::test(start_paused = true)]
    async fn the_longest_requests_are_closed_first_when_all_hold_too_much() {
        let limiter = limiter(20);
        let permits: Vec<_> = (0..5).map_while(|_| limiter.acquire()).collect();
        for (permit, bytes) in permits.iter().zip([9_000, 300, 9_000, 5_000, 0]) {
            permit.state().received();
            permit.hold(bytes);
            permit.hold(bytes / 2);
        }
        let busy = &permits[0];
        busy.state().begin_handling();
        let closing = || permits.iter().map(must_close).collect::<Vec<_>>();
        assert!(permits[4].has_room(1_000));
        assert_eq!(closing(), [false; 5]);
        for _ in 0..2 {
            assert!(!permits[4].has_room(8_192));
            assert_eq!(closing(), [false, false, true, false, false]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_are_handled_do_not_keep_others_waiting() {
        let limiter = limiter(20);
        let handled = limiter.acquire().expect("room");
        handled.hold(30_000);
        handled.state().begin_handling();
        assert!(limiter.acquire().expect("room").has_room(8_192));
    }

    /// A TLS connection whose client accepts nothing: what is written stays in a buffer.
    struct BlockedTls {
        io: DuplexStream,
        is_blocked: bool,
    }

    impl AsyncRead for BlockedTls {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            Pin::new(&mut self.io).poll_read(cx, buffer)
        }
    }

    impl AsyncWrite for BlockedTls {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            self.is_blocked = true;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            if self.is_blocked {
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            }
        }

        /// The end of TLS is written, too.
        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<std::io::Result<()>> {
            self.is_blocked = true;
            Poll::Pending
        }
    }

    /// A connection, and its client, which has sent this.
    async fn connection(limiter: &Rc<ConnectionLimiter>, sent: &str) -> (DuplexStream, SharedIo) {
        let (mut client, io) = duplex(sent.len());
        client.write_all(sent.as_bytes()).await.expect("written");
        let permit = limiter.acquire().expect("room");
        let io = BlockedTls {
            io,
            is_blocked: false,
        };
        let io = DeadlineIo::new(Box::new(io), None, permit, Arc::<Refused>::default());
        (client, SharedIo::new(io))
    }

    fn read(io: &mut SharedIo) -> Option<std::io::Result<usize>> {
        io.read_buf(&mut BytesMut::with_capacity(8192))
            .now_or_never()
    }

    /// How many bytes it receives without waiting.
    fn received(io: &mut SharedIo) -> usize {
        std::iter::from_fn(|| read(io).and_then(Result::ok)).sum()
    }

    /// A request of which 384 bytes are missing. There is no room for two.
    fn large_request() -> String {
        let body = " ".repeat(16_000);
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 16384\r\n\r\n{body}")
    }

    #[tokio::test(start_paused = true)]
    async fn connection_receives_more_once_those_closed_for_it_have_ended() {
        let (limiter, request) = (limiter(20), large_request());
        let (_client, mut first) = connection(&limiter, &request).await;
        assert_eq!(received(&mut first), request.len());
        first.state().begin_reading_body(Instant::now());
        let (_client, mut second) = connection(&limiter, &request).await;
        assert_eq!(received(&mut second), 8192);
        let error = read(&mut first).expect("ended").expect_err("closed");
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(received(&mut second), 0, "the first one has not ended");
        drop(first);
        assert_eq!(received(&mut second), request.len() - 8192);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_closed_for_others_ends_although_its_response_is_not_accepted() {
        let (limiter, request) = (limiter(20), large_request());
        let (_client, mut first) = connection(&limiter, &request).await;
        assert_eq!(received(&mut first), request.len());
        first.state().begin_writing(Instant::now());
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        first.write_all(response).await.expect("written");
        assert!(first.flush().now_or_never().is_none(), "accepted");
        let (_client, mut second) = connection(&limiter, &request).await;
        assert_eq!(received(&mut second), 8192);
        let ended = first.flush().now_or_never().expect("ended");
        let error = ended.expect_err("closed");
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        drop(first);
        assert_eq!(received(&mut second), request.len() - 8192);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_in_time_or_by_the_limiter_although_the_end_of_tls_is_not_accepted() {
        let limiter = limiter(20);
        let write = ConnectionTimeouts::default().write;
        for (closes, expected) in [(false, write), (true, Duration::ZERO)] {
            let (_client, mut io) = connection(&limiter, "GET").await;
            let (state, began) = (io.state(), Instant::now());
            let shutdown = timeout(10 * write, io.shutdown());
            let (ended, ()) = tokio::join!(shutdown, async {
                if closes {
                    state.close();
                }
            });
            let error = ended.expect("ended").expect_err("not accepted");
            assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), expected);
        }
    }

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

    type Parts = Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>>;

    async fn payload(parts: Parts) -> Payload {
        let request = TestRequest::post().to_http_request();
        let extracted = Payload::from_request(&request, &mut dev::Payload::from(parts)).await;
        extracted.expect("a payload")
    }

    /// The result of reading a body of which one byte arrives each second.
    async fn read_slowly(bytes: u64, limit: Duration) -> Result<Bytes, BodyError> {
        let parts = stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            (sent < bytes).then_some((Ok(Bytes::from_static(b" ")), sent + 1))
        });
        let payload = payload(Box::pin(parts)).await;
        within(limit, None, collect(payload, 1024)).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_for_the_whole_body_and_no_byte_extends_it() {
        let limit = Duration::from_secs(5);
        assert_eq!(read_slowly(3, limit).await, Ok(Bytes::from_static(b"   ")));
        assert_eq!(read_slowly(u64::MAX, limit).await, Err(BodyError::Timeout));
    }

    #[tokio::test]
    async fn a_body_may_have_so_many_bytes_and_no_more() {
        let parts = || {
            let parts = ["ab", "cd"].map(|part| Bytes::from_static(part.as_bytes()));
            stream::iter(parts.map(Ok::<_, PayloadError>))
        };
        let whole = payload(Box::pin(parts())).await;
        assert_eq!(collect(whole, 4).await, Ok(Bytes::from_static(b"abcd")));
        // Without waiting for the end of the body.
        let endless = payload(Box::pin(parts().chain(stream::pending()))).await;
        assert_eq!(collect(endless, 3).await, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_length_that_is_too_large_is_refused_before_the_body_is_read() {
        let request = TestRequest::post()
            .insert_header((header::CONTENT_LENGTH, "5"))
            .to_http_request();
        let never = payload(Box::pin(stream::pending())).await;
        let read = read_body(&request, never, 4).await;
        assert_eq!(read, Err(BodyError::TooLarge));
    }
}
