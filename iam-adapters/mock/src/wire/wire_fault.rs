//! Faults on the wire: responses that are cut, slow or too large, and connections that are reset.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::web::Bytes;
use futures_util::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::response::RealmResponse;

/// The bytes of [`WireFault::Huge`].
const HUGE: usize = 10 << 20;

/// The bytes of one chunk of it.
const CHUNK: usize = 64 << 10;

/// The delay before each byte of [`WireFault::Slow`].
const BYTE_DELAY: Duration = Duration::from_millis(500);

/// The body for a response that has none.
const BLANK: &str = "                ";

/// What happens to a response on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireFault {
    /// It is sent as it is.
    None,
    /// The connection ends after half of the body.
    Truncated,
    /// The body is sent byte by byte.
    Slow,
    /// 10 MiB are sent instead of the body.
    Huge,
}

impl WireFault {
    /// Applies the fault to a response.
    pub(super) fn apply(self, mut response: RealmResponse) -> HttpResponse {
        if self == Self::None {
            return response.into_http();
        }
        let body = response.body.take().unwrap_or_else(|| BLANK.to_owned());
        let status = match response.status {
            StatusCode::NO_CONTENT => StatusCode::OK,
            status => status,
        };
        let mut http = HttpResponse::build(status);
        http.content_type(response.content_type);
        let length = body.len() as u64;
        match self {
            Self::Slow => http.body(SizedStream::new(length, slow(body.into()))),
            Self::Huge => http.streaming(spaces()),
            Self::None | Self::Truncated => {
                let (half, _) = body.split_at_checked(body.len() / 2).unwrap_or((&body, ""));
                let half = Bytes::copy_from_slice(half.as_bytes());
                http.body(SizedStream::new(length, truncated(half)))
            }
        }
    }
}

type Chunk = Result<Bytes, actix_web::Error>;

/// Ends before the announced length. The yield lets actix write the first half before the error.
fn truncated(half: Bytes) -> impl Stream<Item = Chunk> {
    stream::unfold(Some(half), |half| async {
        if let Some(half) = half {
            return Some((Ok(half), None));
        }
        tokio::task::yield_now().await;
        None
    })
}

fn slow(body: Bytes) -> impl Stream<Item = Chunk> {
    stream::unfold(body, |mut left| async {
        if left.is_empty() {
            return None;
        }
        sleep(BYTE_DELAY).await;
        let byte = left.split_to(1);
        Some((Ok(byte), left))
    })
}

fn spaces() -> impl Stream<Item = Chunk> {
    let chunk = Bytes::from(vec![b' '; CHUNK]);
    stream::iter((0..HUGE / CHUNK).map(move |_| Ok(chunk.clone())))
}

/// Resets the connection of a request. Handlers get it as connection data.
#[derive(Debug, Clone, Default)]
pub struct ResetHandle(Rc<Cell<bool>>);

impl ResetHandle {
    /// The next write resets the connection.
    pub(super) fn reset(&self) {
        self.0.set(true);
    }
}

/// A connection from the gateway that a handler can reset.
#[derive(Debug)]
pub struct Connection {
    tcp: TcpStream,
    reset: ResetHandle,
}

impl Connection {
    /// Wraps an accepted connection.
    #[must_use]
    pub fn new(tcp: TcpStream) -> Self {
        // Responses are small and written at once, so Nagle's algorithm only delays them.
        let _ = tcp.set_nodelay(true);
        Self {
            tcp,
            reset: ResetHandle::default(),
        }
    }

    /// The handle that resets it.
    #[must_use]
    pub fn reset_handle(&self) -> ResetHandle {
        self.reset.clone()
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
        if self.reset.0.get() {
            // With a linger time of zero, closing sends RST.
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
