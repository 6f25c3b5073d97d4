//! A connection under watch. Whoever may send the next request has so long for it, and what is no
//! request at all is answered in the form of every error.

use std::cell::Cell;
use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_web::web::{Bytes, Data};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::problem::Problem;
use super::{Front, edge};

/// Plain or TLS.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// Whose turn it is on a connection: ours, from the last byte of a request's headers to its
/// response, or the client's.
#[derive(Debug, Clone)]
pub struct Turn(Rc<Cell<Whose>>);

#[derive(Debug, Clone, Copy)]
enum Whose {
    Ours,
    /// Since then; and whether it is the connection's first request that is waited for.
    Theirs {
        since: Instant,
        first: bool,
    },
}

impl Turn {
    fn of_a_new_connection() -> Self {
        Self(Rc::new(Cell::new(Whose::Theirs {
            since: Instant::now(),
            first: true,
        })))
    }

    /// The headers of a request are there.
    pub(super) fn take(&self) {
        self.0.set(Whose::Ours);
    }

    /// The request has its response, as of now.
    pub(super) fn pass(&self, now: std::time::Instant) {
        self.0.set(Whose::Theirs {
            since: now.into(),
            first: false,
        });
    }
}

/// A connection that ends by itself where its client lets it wait.
///
/// actix has such a deadline for the first request of a connection alone: whoever sent one could
/// hold the connection for ever with the headers of a second, or with a body that nobody reads.
pub struct Watched {
    io: Box<dyn Stream>,
    front: Data<Front>,
    peer: Option<SocketAddr>,
    turn: Turn,
    /// When the first byte came in the client's turn, and since when that turn was.
    begun: Option<(Instant, Instant)>,
    /// Rings at the deadline or earlier: it is set anew when it rings, not with every request.
    alarm: Pin<Box<Sleep>>,
    /// What the client is told in place of what actix would say.
    said: Bytes,
    over: bool,
}

impl Watched {
    /// Watches a connection that was just accepted.
    #[must_use]
    pub fn new(io: Box<dyn Stream>, peer: Option<SocketAddr>, front: Data<Front>) -> Self {
        Self {
            io,
            peer,
            turn: Turn::of_a_new_connection(),
            begun: None,
            alarm: Box::pin(sleep_until(Instant::now() + front.patience.headers)),
            said: Bytes::new(),
            over: false,
            front,
        }
    }

    /// What the handlers of its requests have to know of it.
    #[must_use]
    pub fn turn(&self) -> Turn {
        self.turn.clone()
    }

    /// Whether the client had its time. If not, the task is woken when it has.
    fn is_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        let Whose::Theirs { since, first } = self.turn.0.get() else {
            return false;
        };
        let patience = self.front.patience;
        let due = match self.begun {
            Some((came, turn)) if turn == since => came + patience.headers,
            _ if first => since + patience.headers,
            _ => since + patience.idle,
        };
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

    /// The end, for a reader. Who had begun a first request is told why; after that an answer
    /// could be taken for that of another request.
    fn end(&mut self) {
        let first = matches!(self.turn.0.get(), Whose::Theirs { first: true, .. });
        if first && self.begun.is_some() && !self.over {
            self.said = edge::refuse(&self.front, self.peer, &Problem::TooSlow);
        }
        self.over = true;
    }

    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.said.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.said))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let _ = self.said.split_to(written);
        }
        Poll::Ready(Ok(()))
    }
}

/// actix answers what it cannot parse by itself, and with nothing in it.
fn refusal(bytes: &[u8]) -> Option<Problem> {
    let empty = |status: &str| {
        bytes
            .strip_prefix(b"HTTP/1.1 ")
            .and_then(|rest| rest.strip_prefix(status.as_bytes()))
            .is_some_and(|rest| rest.starts_with(b"\r\ncontent-length: 0\r\n"))
    };
    if empty("400 Bad Request") {
        Some(Problem::InvalidRequest("not a request of HTTP/1.1"))
    } else if empty("431 Request Header Fields Too Large") {
        Some(Problem::HeadersTooLarge)
    } else {
        None
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.over || self.is_overdue(cx) {
            self.end();
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        if buffer.filled().len() > before
            && let Whose::Theirs { since, .. } = self.turn.0.get()
            && self.begun.is_none_or(|(_, turn)| turn != since)
        {
            self.begun = Some((Instant::now(), since));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_said(cx))?;
        if let Some(problem) = refusal(bytes) {
            self.said = edge::refuse(&self.front, self.peer, &problem);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A client that does not read what it asked for is as idle as one that does not ask.
        let overdue = self.is_overdue(cx);
        let flushed =
            self.poll_said(cx)?.is_ready() && Pin::new(&mut self.io).poll_flush(cx)?.is_ready();
        match (flushed, overdue) {
            (true, _) => Poll::Ready(Ok(())),
            (false, false) => Poll::Pending,
            (false, true) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
