//! Responses to connections and input that never become a request of the application.

use std::io;
use std::net::SocketAddr;
use std::time::SystemTime;

use actix_web::body::MessageBody as _;
use actix_web::http::header::{CONTENT_LENGTH, DATE, HttpDate};
use actix_web::web::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::ConnectionEvents;

/// Why input never became a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The head is malformed, or its framing is ambiguous: 400.
    MalformedHead,
    /// The head is too long or has too many header fields: 431.
    HeadTooLarge,
    /// The first head of the connection did not arrive in time: 408.
    HeadTimeout,
    /// The connection limit is reached: 503.
    ConnectionLimit,
}

/// The bytes of the application's response to a refusal. It is the last one of its connection.
#[expect(
    clippy::disallowed_methods,
    reason = "the date of the response is the machine's"
)]
pub(super) fn encode(
    events: &dyn ConnectionEvents,
    peer: Option<SocketAddr>,
    refusal: ConnectionRefusal,
) -> Bytes {
    let response = events.refusal(peer, refusal);
    let status = response.status();
    let mut bytes = format!("HTTP/1.1 {status}\r\nconnection: close\r\n").into_bytes();
    let mut header = |name: &str, value: &[u8]| {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    };
    let now = HttpDate::from(SystemTime::now()).to_string();
    header(DATE.as_str(), now.as_bytes());
    for (name, value) in response.headers() {
        header(name.as_str(), value.as_bytes());
    }
    let body = response.into_body().try_into_bytes().unwrap_or_default();
    header(CONTENT_LENGTH.as_str(), body.len().to_string().as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes.into()
}

/// Refuses a connection beyond the limit, and reads until the client has closed its side, so that
/// it receives the response.
///
/// # Errors
///
/// The connection broke.
pub(super) async fn refuse_connection(
    mut tcp: TcpStream,
    peer: Option<SocketAddr>,
    events: &dyn ConnectionEvents,
) -> io::Result<()> {
    let response = encode(events, peer, ConnectionRefusal::ConnectionLimit);
    tcp.write_all(&response).await?;
    tcp.shutdown().await?;
    tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await?;
    Ok(())
}
