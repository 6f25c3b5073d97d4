//! A connection under watch. Whoever may send the next request has so long for it, and what is no
//! request at all is answered in the form of every error.

mod refused;

use std::future::Future as _;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::web::{Bytes, Data};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::crowd::turn::Whose;
use super::crowd::{Place, Turn};
use super::problem::Problem;
use super::{Front, edge};
use refused::refusal;

pub use refused::turn_away;

/// Plain or TLS.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// The longest head of a request, the line and all headers. Browsers and proxies stay far below.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What is read at once of what may be many requests: actix makes a request of each before it
/// begins with the first, and one takes far more memory than its bytes.
const PARSED_AT_ONCE: usize = 4 * 1024;

/// How long a client that is told to go may still send what nobody reads: were the connection cut
/// at once, it might never see the answer.
pub const LINGER: Duration = Duration::from_millis(500);

/// A connection that ends by itself where its client lets it wait.
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
    /// With how many bytes of this turn the parser was left alone before more are read.
    parsed: usize,
    /// What the client is told in place of what actix would say.
    said: Bytes,
    over: bool,
    /// Whether more of a request may be on its way, and since when nobody reads it.
    lingering: Option<Instant>,
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
            parsed: 0,
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

    /// Whether to read on. Nothing is read ahead for a client that does not take its answers, and
    /// not much while a request is under way: actix would hold it, and look at it all the time.
    fn wants_more(&mut self, cx: &mut Context<'_>) -> bool {
        let turn = self.place.turn();
        let (whose, bytes) = (turn.whose(), turn.bytes());
        if self.blocked.is_some() || (whose == Whose::Ours && bytes >= HEAD_BYTES_MAX) {
            self.declined = true;
            return false;
        }
        if !matches!(whose, Whose::Theirs { .. }) || bytes < PARSED_AT_ONCE {
            self.parsed = 0;
        } else if bytes >= self.parsed + PARSED_AT_ONCE {
            self.parsed = bytes;
            cx.waker().wake_by_ref();
            return false;
        } else if bytes >= HEAD_BYTES_MAX {
            self.refuse(&Problem::HeadersTooLarge);
            self.lingering = Some(Instant::now());
        }
        true
    }

    /// The last word to this client.
    fn refuse(&mut self, problem: &Problem) {
        if !self.over {
            self.said = edge::refuse(&self.front, self.peer, problem);
        }
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
        let turn = self.place.turn();
        let full = turn.whose() == Whose::Ours && turn.bytes() >= HEAD_BYTES_MAX;
        if self.declined && !full {
            self.declined = false;
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
        if !self.over && self.is_overdue(cx) {
            self.end();
        }
        if !self.over && !self.wants_more(cx) {
            return Poll::Pending;
        }
        if self.over {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buffer) {
            Poll::Pending if self.is_parted_with(cx) => {
                self.over = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(())) => {
                let came = buffer.filled().len() - before;
                if came > 0 {
                    self.place.turn().read(came);
                }
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_said(cx))?;
        match refusal(bytes) {
            Some((0, problem)) => {
                self.said = edge::refuse(&self.front, self.peer, &problem);
                Poll::Ready(Ok(bytes.len()))
            }
            Some((begin, _)) => self.poll_write_in_time(cx, bytes.get(..begin)),
            None => self.poll_write_in_time(cx, Some(bytes)),
        }
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
        if let Some(since) = self.lingering {
            ready!(self.poll_linger(since, cx));
        }
        Poll::Ready(Ok(()))
    }
}
