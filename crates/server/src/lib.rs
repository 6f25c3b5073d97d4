//! An HTTP/1.1 listener for any actix-web application: connection limits, request deadlines,
//! request framing and load shedding.
//!
//! What an application adds is in [`ConnectionEvents`]: its metrics, and its responses to connections and
//! requests that never reach it.
//!
//! It replaces `actix_web::HttpServer`, which has a deadline only for the first head of a connection.
//! There, a later head, a body, or a response that the client does not read can occupy a connection
//! without end.
//!
//! hyper 1.12 with its own limits (a head of 16 KiB, 96 header fields, a head deadline, one request at a
//! time) was measured in place of the framing here, behind the 102 requests of `tests/hostile/framings.py`. Of
//! the 88 that must be refused, it serves 20: 16 have both `Content-Length` and `Transfer-Encoding`, and
//! the application cannot see that there were both; the others have two lengths, two hosts or no host.
//! Two of them make it serve a second, hidden request. 68 refusals have no body. So this module
//! frames requests itself.

mod connection;
mod deadline_io;
mod framing;
mod listener;
mod open_files;
mod passed_sockets;
mod refusal;

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::HttpResponse;

pub use connection::{BodyError, is_overloaded, read_body};
pub use framing::RequestHead;
pub use listener::{BindError, Listener, bind};
pub use open_files::{connections_within, raise_open_file_limit};
pub use passed_sockets::{PassedSocketError, PassedSockets};
pub use refusal::ConnectionRefusal;

/// What an application adds to its listener.
pub trait ConnectionEvents: Send + Sync + 'static {
    /// Counts a connection that was refused or closed because of the connection limit.
    fn connection_shed(&self, reason: ShedReason);

    /// The last response of a connection: to input that never becomes a request, or to the connection itself.
    ///
    /// The listener adds `Connection: close`, `Date` and `Content-Length`. The body must be in memory.
    fn refusal(&self, peer: Option<SocketAddr>, refusal: ConnectionRefusal) -> HttpResponse;

    /// The response to a request that the application need not get, as [`Self::refusal`] has it. The connection stays
    /// open, unless the request or the response is to close it.
    ///
    /// Only asked for requests that arrive with all of their body at once, and before most of the work of a
    /// request: so a flood of requests that are refused anyway takes less from the others.
    fn refusal_of_request(
        &self,
        peer: Option<SocketAddr>,
        head: RequestHead<'_>,
    ) -> Option<HttpResponse> {
        let _ = (peer, head);
        None
    }
}

/// Why a connection was refused or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShedReason {
    /// The limit is reached, and no connection is idle.
    Refused,
    /// The connection waited for its client the longest, and the limit is near.
    Idle,
}

/// How long a client may take for each part of a request.
///
/// Not settings, because operators have no reason to change them. Tests do.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimeouts {
    /// From the first byte of a head to its last one, and from the connection to the first byte of the
    /// first head. Also for a TLS handshake.
    pub head: Duration,
    /// For the whole body. A client that sends it byte by byte gets no more time.
    pub body: Duration,
    /// For the client to accept the rest of what is written, once it does not accept all of it at once.
    /// A client that accepts it byte by byte gets no more time. Also for the end of TLS.
    pub write: Duration,
    /// From a response, or the end of a body that comes after it, to the first byte of the next request.
    pub idle: Duration,
    /// The longest time that a request may wait for its worker. Beyond it the request can be
    /// refused (see [`is_overloaded`]): most clients that waited longer have disconnected or retried,
    /// and do not need the response.
    pub queue_delay: Duration,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(5),
            body: Duration::from_secs(5),
            write: Duration::from_secs(5),
            idle: Duration::from_secs(15),
            queue_delay: Duration::from_millis(200),
        }
    }
}
