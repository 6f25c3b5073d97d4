//! A connection that can be broken off as no server breaks one off by itself.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The hand on a connection, for the handlers of its requests.
#[derive(Debug, Clone, Default)]
pub struct Line(Rc<Cell<bool>>);

impl Line {
    /// Resets the connection in place of what is written next.
    pub(super) fn reset(&self) {
        self.0.set(true);
    }
}

/// A connection from the gateway.
#[derive(Debug)]
pub struct Connection {
    tcp: TcpStream,
    line: Line,
}

impl Connection {
    /// One that was just accepted.
    #[must_use]
    pub fn new(tcp: TcpStream) -> Self {
        // Answers are small and go out whole; waiting to send them saves nothing.
        let _ = tcp.set_nodelay(true);
        Self {
            tcp,
            line: Line::default(),
        }
    }

    /// The hand on it.
    #[must_use]
    pub fn line(&self) -> Line {
        self.line.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.line.0.get() {
            // Without lingering, the end of a connection is a reset.
            self.tcp.set_zero_linger()?;
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
