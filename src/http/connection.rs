//! A connection: its deadlines, and one request after another with one response each.

mod framing;
mod refused;

use std::future::Future as _;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::web::{Bytes, BytesMut, Data};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::crowd::turn::Whose;
use super::crowd::{Place, Turn};
use super::problem::Problem;
use super::{Front, edge};
use framing::RequestFraming;

pub(super) use framing::BodyFault;
pub use refused::turn_away;

/// Plain or TLS.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// The most that is read at once.
const READ_BYTES: usize = 8 * 1024;

/// The most that is received of further requests before the current one has its response.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// How long a client that is told to go may still send what nobody reads: were the connection cut
/// at once, it might never see the answer.
pub const LINGER: Duration = Duration::from_millis(500);

/// A connection that ends by itself where its client lets it wait, and that passes on one request
/// at a time: the next one only once the response to the current one has been written.
///
/// actix has such a deadline for the first request of a connection alone: whoever sent one could
/// hold the connection for ever with the headers of a second, or with a body that nobody reads.
pub struct Watched {
    io: Box<dyn Stream>,
    front: Data<Front>,
    peer: Option<SocketAddr>,
    place: Place,
    /// Rings at the deadline or earlier: it is set anew when it rings, not with every request.
    alarm: Pin<Box<Sleep>>,
    /// Since when the client does not take what is written.
    blocked: Option<Instant>,
    /// Whether reading waits for something else than the client.
    declined: bool,
    /// The current request, or the next one where there is none.
    request: RequestFraming,
    /// What was received and not yet passed on.
    received: BytesMut,
    /// How many of these bytes belong to the current request.
    framed: usize,
    /// How far the response to the current request is.
    response: Response,
    /// The response to what is not a request.
    said: Bytes,
    /// Whether nothing more is passed on.
    over: bool,
    /// Since when further input is read and discarded.
    lingering: Option<Instant>,
}

/// How far the response to a request is; `last` where it is the last one of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Response {
    /// The request was passed on.
    Awaited,
    /// A part of it has been written.
    Begun { last: bool },
    /// All of it has been written. So it is before the first request.
    Written { last: bool },
}

impl Watched {
    /// Watches a connection that was just accepted.
    #[must_use]
    pub fn new(
        io: Box<dyn Stream>,
        peer: Option<SocketAddr>,
        place: Place,
        front: Data<Front>,
    ) -> Self {
        Self {
            io,
            peer,
            place,
            alarm: Box::pin(sleep_until(Instant::now() + front.patience.headers)),
            blocked: None,
            declined: false,
            request: RequestFraming::new(),
            received: BytesMut::new(),
            framed: 0,
            response: Response::Written { last: false },
            said: Bytes::new(),
            over: false,
            lingering: None,
            front,
        }
    }

    /// What the handlers of its requests have to know of it.
    #[must_use]
    pub fn turn(&self) -> Turn {
        self.place.turn().clone()
    }

    /// Whether that time has come. If not, the task is woken when it has.
    fn is_past(&mut self, due: Instant, cx: &mut Context<'_>) -> bool {
        if self.alarm.deadline() > due {
            self.alarm.as_mut().reset(due);
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            if self.alarm.deadline() >= due {
                return true;
            }
            self.alarm.as_mut().reset(due);
        }
        false
    }

    /// Whether the client had its time to say something.
    fn is_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        let turn = self.place.turn();
        let Whose::Theirs { since, first } = turn.whose() else {
            return false;
        };
        let patience = self.front.patience;
        let due = match turn.begun() {
            Some(came) => came + patience.headers,
            None if first => since + patience.headers,
            None => since + patience.idle,
        };
        self.is_past(due, cx)
    }

    /// Whether the client had its time to take an answer.
    fn is_stalled(&mut self, cx: &mut Context<'_>) -> bool {
        let since = *self.blocked.get_or_insert_with(Instant::now);
        self.is_past(since + self.front.patience.answer, cx)
    }

    /// Whether to receive more. Nothing is received ahead for a client that does not take its
    /// responses, and not much while a request has none.
    fn wants_more(&mut self) -> bool {
        let ahead = self.request.is_complete() && self.received.len() >= READ_AHEAD_BYTES;
        self.declined = self.blocked.is_some() || ahead;
        !self.declined
    }

    /// How many of these bytes can be passed on. The head of a request can at once where it is
    /// complete.
    fn frame(&mut self, bytes: &mut [u8]) -> usize {
        let begins = !self.request.has_head();
        let framed = self.request.frame(bytes).unwrap_or_else(|problem| {
            self.refuse(&problem);
            0
        });
        if begins && self.request.has_head() {
            self.response = Response::Awaited;
            self.place.turn().take();
        }
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
        let answered = matches!(self.response, Response::Written { .. });
        if !self.request.is_complete() || !answered {
            return;
        }
        self.request = RequestFraming::new();
        if !self.received.is_empty() {
            self.place.turn().received();
            self.frame_received();
        }
    }

    /// Passes on what belongs to the current request.
    fn pass_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let bytes = self.received.split_to(self.framed.min(buffer.remaining()));
        buffer.put_slice(&bytes);
        self.framed -= bytes.len();
        if self.received.is_empty() {
            // An idle connection holds no memory that it does not need.
            self.received = BytesMut::new();
        }
    }

    /// Receives bytes of the current request, or of later ones. Tells whether there were any.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        if self.received.is_empty() && !self.request.is_complete() {
            return self.poll_receive_into(cx, buffer);
        }
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut space = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut space))?;
        if space.filled().is_empty() {
            return Poll::Ready(Ok(false));
        }
        self.place.turn().received();
        self.received.extend_from_slice(space.filled());
        if !self.request.is_complete() {
            self.frame_received();
        }
        Poll::Ready(Ok(true))
    }

    /// Receives without a copy what can be passed on at once: mostly a whole request.
    fn poll_receive_into(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        let received = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        if received.is_empty() {
            return Poll::Ready(Ok(false));
        }
        self.place.turn().received();
        let framed = self.frame(received);
        let rest = received.get(framed..).unwrap_or_default();
        self.received.extend_from_slice(rest);
        buffer.set_filled(before + framed);
        Poll::Ready(Ok(true))
    }

    /// The response to what is no request. None is under way here, and none follows.
    fn refuse(&mut self, problem: &Problem) {
        self.said = edge::refuse(&self.front, self.peer, problem);
        self.response = Response::Written { last: true };
        self.over = true;
    }

    /// The end, for a reader. Who had begun a first request is told why; after that an answer
    /// could be taken for that of another request.
    fn end(&mut self) {
        let turn = self.place.turn();
        let first = matches!(turn.whose(), Whose::Theirs { first: true, .. });
        if first && turn.begun().is_some() {
            self.refuse(&Problem::TooSlow);
        }
        self.over = true;
    }

    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.said.is_empty() {
            let written = ready!(self.poll_write_in_time(cx, None))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let _ = self.said.split_to(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes these bytes, or else what was said, for as long as the client takes some of it.
    fn poll_write_in_time(
        &mut self,
        cx: &mut Context<'_>,
        bytes: Option<&[u8]>,
    ) -> Poll<io::Result<usize>> {
        let io = Pin::new(&mut self.io);
        match io.poll_write(cx, bytes.unwrap_or(&self.said)) {
            Poll::Pending if self.is_stalled(cx) || self.is_parted_with(cx) => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            tried => tried,
        }
    }

    fn is_parted_with(&self, cx: &mut Context<'_>) -> bool {
        self.place.turn().is_leaving(cx.waker())
    }

    /// Nothing that was to be written is left.
    fn flushed(&mut self, cx: &mut Context<'_>) {
        self.blocked = None;
        let mut wake = std::mem::take(&mut self.declined);
        if let Response::Begun { last } = self.response {
            self.response = Response::Written { last };
            wake |= last || !self.received.is_empty();
        }
        if wake {
            cx.waker().wake_by_ref();
        }
    }

    /// Takes what a client still sends that was told to go.
    fn poll_linger(&mut self, since: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut sink = [MaybeUninit::uninit(); 4096];
            let mut sink = ReadBuf::uninit(&mut sink);
            match Pin::new(&mut self.io).poll_read(cx, &mut sink) {
                Poll::Ready(Ok(())) if !sink.filled().is_empty() => {}
                Poll::Pending if !self.is_past(since + LINGER, cx) => return Poll::Pending,
                Poll::Ready(_) | Poll::Pending => return Poll::Ready(()),
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        loop {
            if !self.over && self.is_overdue(cx) {
                self.end();
            }
            self.over |= self.response == Response::Written { last: true };
            if self.over {
                return Poll::Ready(Ok(()));
            }
            self.next_request();
            if self.framed > 0 {
                self.pass_on(buffer);
                return Poll::Ready(Ok(()));
            }
            if let Some(fault) = self.request.fault() {
                self.place.turn().break_off(fault);
                self.over = true;
                continue;
            }
            if self.over {
                continue;
            }
            if !self.wants_more() {
                return Poll::Pending;
            }
            match self.poll_receive(cx, buffer)? {
                Poll::Ready(true) if buffer.filled().len() > before => return Poll::Ready(Ok(())),
                Poll::Ready(true) => {}
                Poll::Ready(false) if self.request.is_complete() && !self.received.is_empty() => {
                    // There are requests to serve before the end.
                    self.declined = true;
                    return Poll::Pending;
                }
                Poll::Ready(false) => self.over = true,
                Poll::Pending if self.is_parted_with(cx) => self.over = true,
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // An interim response comes while it is still the gateway's turn.
        let is_final = matches!(self.place.turn().whose(), Whose::Theirs { .. });
        if self.response == Response::Awaited && is_final {
            let last = self.request.is_last_response(bytes);
            self.response = Response::Begun { last };
        }
        self.poll_write_in_time(cx, Some(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_said(cx))?;
        match Pin::new(&mut self.io).poll_flush(cx) {
            Poll::Ready(Ok(())) => self.flushed(cx),
            Poll::Pending if self.is_stalled(cx) => {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            other => return other,
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
        // RFC 9112 section 9.6: were it closed at once, the client might lose the response.
        if self.response == (Response::Written { last: true }) {
            let since = *self.lingering.get_or_insert_with(Instant::now);
            ready!(self.poll_linger(since, cx));
        }
        Poll::Ready(Ok(()))
    }
}
