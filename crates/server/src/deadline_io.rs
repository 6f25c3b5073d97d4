//! The bytes of a connection: its deadlines, and one request after another with one response each.

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::web::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::{ConnectionPermit, ConnectionPhase, ConnectionState};
use super::framing::RequestFraming;
use super::{ConnectionEvents, ConnectionRefusal, refusal};

/// Plain or TLS.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Transport for T {}

/// The most that is read at once.
const READ_BYTES: usize = 8 * 1024;

/// The most that is received of further requests before the current one has its response.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// Time to drain unread input after the final response, so that the client receives it.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The I/O of a connection. It ends where the client exceeds a deadline, and passes on one request
/// at a time: the next one after the response to the current one has been written.
///
/// actix-http has a deadline for the first head of a connection only. After one request, a client could
/// occupy the connection without end with the head of a second one, or with a body that no handler
/// reads. hyper has a deadline for every head, but none for a body or a write.
pub(super) struct DeadlineIo {
    io: Box<dyn Transport>,
    events: Arc<dyn ConnectionEvents>,
    peer: Option<SocketAddr>,
    permit: ConnectionPermit,
    /// Fires at the deadline or earlier: it is reset when it fires, not for every request.
    timer: Pin<Box<Sleep>>,
    /// Since when the client has not accepted all that is written.
    write_blocked_since: Option<Instant>,
    /// Whether reading waits for something other than input.
    is_read_paused: bool,
    /// The current request, or the next one where there is none.
    request: RequestFraming,
    /// What was received and not yet passed on.
    received: BytesMut,
    /// How many of these bytes belong to the current request.
    framed: usize,
    /// How many bytes of the current request were passed on.
    passed_on: usize,
    response: ResponseProgress,
    /// What is left to write of a response that is not the application's.
    refusal: Bytes,
    /// Whether the input ends next time, because the limiter closes the connection.
    is_closing: bool,
    /// Whether nothing more is passed on.
    has_ended: bool,
    /// Since when further input is read and discarded.
    draining_since: Option<Instant>,
}

/// The progress of the response to a request; `last` where it is the last one of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseProgress {
    /// The request was passed on.
    Pending,
    /// The request is not passed on, and the refusal is its response.
    Refused { last: bool },
    /// A part of it has been written.
    Started { last: bool },
    /// All of it has been written. Also before the first request.
    Written { last: bool },
}

impl DeadlineIo {
    pub(super) fn new(
        io: Box<dyn Transport>,
        peer: Option<SocketAddr>,
        permit: ConnectionPermit,
        events: Arc<dyn ConnectionEvents>,
    ) -> Self {
        let head = permit.state().timeouts().head;
        Self {
            io,
            events,
            peer,
            permit,
            timer: Box::pin(sleep_until(Instant::now() + head)),
            write_blocked_since: None,
            is_read_paused: false,
            request: RequestFraming::new(),
            received: BytesMut::new(),
            framed: 0,
            passed_on: 0,
            response: ResponseProgress::Written { last: false },
            refusal: Bytes::new(),
            is_closing: false,
            has_ended: false,
            draining_since: None,
        }
    }

    pub(super) fn state(&self) -> &Rc<ConnectionState> {
        self.permit.state()
    }

    /// Whether the deadline has passed. If not, the task is woken when it has.
    fn has_passed(&mut self, deadline: Instant, cx: &mut Context<'_>) -> bool {
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.timer.deadline() >= deadline {
                return true;
            }
            self.timer.as_mut().reset(deadline);
        }
        false
    }

    /// Ends what the client does not accept in time, and at once where the limiter closes the
    /// connection.
    fn in_time<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_pending() {
            let since = *self.write_blocked_since.get_or_insert_with(Instant::now);
            let deadline = since + self.state().timeouts().write;
            if self.has_passed(deadline, cx) || self.must_close(cx) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        written
    }

    /// Whether to receive more. Nothing is received ahead from a client that does not accept its
    /// responses, and a limited amount while a request has none.
    fn can_receive(&mut self, cx: &mut Context<'_>) -> bool {
        let is_ahead = self.request.is_complete() && self.received.len() >= READ_AHEAD_BYTES;
        self.is_read_paused = self.write_blocked_since.is_some() || is_ahead;
        if self.is_read_paused {
            return false;
        }
        let has_room = self.permit.has_room(READ_BYTES);
        if !has_room {
            // The tasks of the connections that are closed for this one run before it does.
            cx.waker().wake_by_ref();
        }
        has_room
    }

    /// How many of these bytes can be passed on. The head of a request can as soon as it is
    /// complete.
    fn frame(&mut self, bytes: &mut [u8]) -> usize {
        let had_head = self.request.has_head();
        let (events, peer, mut refusal) = (&self.events, self.peer, None);
        let framed = self.request.frame(bytes, |head| {
            refusal = events.refusal_of_request(peer, head);
        });
        let framed = framed.unwrap_or_else(|refusal| {
            self.refuse(refusal);
            0
        });
        if !had_head && self.request.has_head() {
            self.response = ResponseProgress::Pending;
            self.state().begin_handling();
        }
        if let Some(response) = refusal {
            self.refusal = if self.request.is_last() {
                refusal::encode_last(response)
            } else {
                refusal::encode(response)
            };
            let last = self.request.is_last_response(&self.refusal);
            self.response = ResponseProgress::Refused { last };
            self.state().begin_writing(Instant::now());
        }
        self.state().set_whole(self.request.is_complete());
        framed
    }

    /// Frames what was received and not framed before.
    fn frame_received(&mut self) {
        let mut received = std::mem::take(&mut self.received);
        let framed = self.frame(received.get_mut(self.framed..).unwrap_or_default());
        self.received = received;
        self.framed += framed;
    }

    /// Begins with the next request, once the current one has its response.
    fn next_request(&mut self) {
        let has_response = matches!(self.response, ResponseProgress::Written { .. });
        // Bytes of a body that came after its response are passed on first: they are no head.
        if !self.request.is_complete() || !has_response || self.framed > 0 {
            return;
        }
        self.request = RequestFraming::new();
        self.passed_on = 0;
        self.state().end_body();
        if !self.received.is_empty() {
            self.state().received();
            self.frame_received();
        }
    }

    fn pass_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let count = self.framed.min(buffer.remaining());
        buffer.put_slice(self.received.get(..count).unwrap_or_default());
        self.passed_on += count;
        self.discard(count);
    }

    /// Removes bytes of the current request from the beginning of what was received.
    fn discard(&mut self, count: usize) {
        // Not `split_to`, which allocates.
        self.received.advance(count);
        self.framed -= count;
        if self.received.is_empty() {
            // An idle connection holds no memory that it does not need.
            self.received = BytesMut::new();
        }
    }

    /// Receives bytes of the current request, or of later ones. Returns whether there were any.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut space = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut space))?;
        if space.filled().is_empty() {
            return Poll::Ready(Ok(false));
        }
        self.state().received();
        self.received.extend_from_slice(space.filled());
        if !self.request.is_complete() {
            self.frame_received();
        }
        self.hold();
        Poll::Ready(Ok(true))
    }

    /// Counts what this connection holds. A body that comes after its response is discarded.
    fn hold(&self) {
        let is_discarded = self.request.has_head() && self.response != ResponseProgress::Pending;
        let passed_on = if is_discarded { 0 } else { self.passed_on };
        self.permit.hold(passed_on + self.received.len());
    }

    /// Responds to input that is not a request. No response is in progress, and none follows.
    fn refuse(&mut self, refusal: ConnectionRefusal) {
        self.refusal = refusal::encode_last(self.events.refusal(self.peer, refusal));
        self.response = ResponseProgress::Written { last: true };
        self.has_ended = true;
    }

    /// Ends the input of a client that has exceeded its time.
    fn end_overdue(&mut self) {
        if self.state().awaits_first_request() {
            self.refuse(ConnectionRefusal::HeadTimeout);
        }
        self.has_ended = true;
    }

    fn poll_write_refusal(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            let written = ready!(self.poll_write_in_time(cx, None))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let _ = self.refusal.split_to(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes these bytes, or else the refusal.
    fn poll_write_in_time(
        &mut self,
        cx: &mut Context<'_>,
        bytes: Option<&[u8]>,
    ) -> Poll<io::Result<usize>> {
        let io = Pin::new(&mut self.io);
        let written = io.poll_write(cx, bytes.unwrap_or(&self.refusal));
        self.in_time(written, cx)
    }

    fn must_close(&self, cx: &mut Context<'_>) -> bool {
        self.state().must_close(cx.waker())
    }

    /// Whether the input ends because the limiter closes the connection. Only after the runtime has looked
    /// for input: a request may have arrived while the worker accepted many connections.
    fn ends_by_limiter(&mut self, cx: &mut Context<'_>) -> bool {
        let was_closing = self.is_closing;
        self.is_closing = self.must_close(cx);
        if self.is_closing && !was_closing {
            // It wakes this task after that.
            let _ = pin!(yield_now()).poll(cx);
        }
        self.is_closing && was_closing
    }

    /// Ends the input if the limiter closes the connection while there is no room for more. Without a
    /// response where a body is incomplete: the request would hold its memory until the client has
    /// accepted that.
    fn end_if_closed(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.has_ended = self.must_close(cx);
        if self.has_ended && self.state().phase() == ConnectionPhase::ReadingBody {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Nothing is left to be written.
    fn flushed(&mut self, cx: &mut Context<'_>) {
        self.write_blocked_since = None;
        let mut wake = std::mem::take(&mut self.is_read_paused);
        if let ResponseProgress::Started { last } | ResponseProgress::Refused { last } =
            self.response
        {
            self.response = ResponseProgress::Written { last };
            self.state().end_writing();
            // actix-http has read before it responded. If the client sends nothing more, only the timer
            // makes it read again.
            wake = wake
                || last
                || !self.received.is_empty()
                || self
                    .state()
                    .release_at()
                    .is_some_and(|release_at| self.has_passed(release_at, cx));
        }
        if wake {
            cx.waker().wake_by_ref();
        }
    }

    /// Discards what the client still sends.
    fn poll_drain(&mut self, since: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut sink = [MaybeUninit::uninit(); 4096];
            let mut sink = ReadBuf::uninit(&mut sink);
            match Pin::new(&mut self.io).poll_read(cx, &mut sink) {
                Poll::Ready(Ok(())) if !sink.filled().is_empty() => {}
                Poll::Pending
                    if !self.must_close(cx) && !self.has_passed(since + DRAIN_TIMEOUT, cx) =>
                {
                    return Poll::Pending;
                }
                Poll::Ready(_) | Poll::Pending => return Poll::Ready(()),
            }
        }
    }

    /// Waits until bytes of the current request can be passed on, and passes them on if there is a
    /// buffer. Without bytes, the input has ended.
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        buffer: Option<&mut ReadBuf<'_>>,
    ) -> Poll<io::Result<()>> {
        loop {
            self.has_ended |= self.response == ResponseProgress::Written { last: true };
            if self.has_ended {
                return Poll::Ready(Ok(()));
            }
            self.next_request();
            if let ResponseProgress::Refused { .. } = self.response {
                self.discard(self.framed);
                ready!(self.poll_flush(cx))?;
                continue;
            }
            if self.framed > 0 {
                if let Some(buffer) = buffer {
                    self.pass_on(buffer);
                }
                return Poll::Ready(Ok(()));
            }
            if let Some(fault) = self.request.fault() {
                self.state().break_off_body(fault);
                self.has_ended = true;
                continue;
            }
            if self.has_ended {
                continue;
            }
            if self.can_receive(cx) {
                match self.poll_receive(cx)? {
                    Poll::Ready(true) => continue,
                    Poll::Ready(false)
                        if self.request.is_complete() && !self.received.is_empty() =>
                    {
                        // Requests that were received need responses before the end.
                        self.is_read_paused = true;
                    }
                    Poll::Ready(false) => self.has_ended = true,
                    Poll::Pending => self.has_ended = self.ends_by_limiter(cx),
                }
            } else {
                self.end_if_closed(cx)?;
            }
            // Only now: what arrived in time is not late because this worker was busy.
            if !self.has_ended {
                let is_in_actix = buffer.is_some() && !self.request.has_head();
                let release_at = is_in_actix.then(|| self.state().release_at()).flatten();
                let deadline = release_at.or_else(|| self.state().deadline());
                if !deadline.is_some_and(|deadline| self.has_passed(deadline, cx)) {
                    return Poll::Pending;
                }
                if release_at.is_some() {
                    self.state().release();
                    return Poll::Ready(Ok(()));
                }
                self.end_overdue();
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // What is written in another phase is an interim response.
        let is_final = self.state().phase() == ConnectionPhase::Writing;
        if self.response == ResponseProgress::Pending && is_final {
            let last = self.request.is_last_response(bytes);
            self.response = ResponseProgress::Started { last };
        }
        self.poll_write_in_time(cx, Some(bytes))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_refusal(cx))?;
        // With TLS, what was written is in a buffer, and only this waits for the client.
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        ready!(self.in_time(flushed, cx))?;
        self.flushed(cx);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state().is_released() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_write_refusal(cx))?;
        // It flushes as well, and with TLS it waits until the client accepts the end.
        let shut_down = Pin::new(&mut self.io).poll_shutdown(cx);
        ready!(self.in_time(shut_down, cx))?;
        self.flushed(cx);
        // RFC 9112 section 9.6: if it were closed at once, the client might lose the response.
        if self.response == (ResponseProgress::Written { last: true }) {
            let since = *self.draining_since.get_or_insert_with(Instant::now);
            ready!(self.poll_drain(since, cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// The I/O of a connection that outlives actix-http's part of it.
///
/// actix-http keeps two buffers of 8 KiB for a connection until it ends, and its state of 3 KiB. So it
/// gets a connection once a request has come, and loses it where no other one follows soon.
#[derive(Clone)]
pub(super) struct SharedIo(Rc<RefCell<DeadlineIo>>);

impl SharedIo {
    pub(super) fn new(io: DeadlineIo) -> Self {
        Self(Rc::new(RefCell::new(io)))
    }

    pub(super) fn state(&self) -> Rc<ConnectionState> {
        Rc::clone(self.0.borrow().state())
    }

    /// Waits for the head of a request. Returns whether one came before the input ended.
    pub(super) async fn has_request(&self) -> io::Result<bool> {
        self.state().begin_waiting();
        poll_fn(|cx| self.0.borrow_mut().poll_input(cx, None)).await?;
        Ok(self.0.borrow().framed > 0)
    }
}

impl AsyncRead for SharedIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_input(cx, Some(buffer))
    }
}

impl AsyncWrite for SharedIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(cx)
    }
}
