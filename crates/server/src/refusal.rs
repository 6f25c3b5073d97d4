//! Responses to connections and input that the application never gets.

use std::io;
use std::net::SocketAddr;
use std::time::SystemTime;

use actix_web::HttpResponse;
use actix_web::body::MessageBody as _;
use actix_web::http::ConnectionType;
use actix_web::http::header::HttpDate;
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

/// As [`encode`], for the last response of a connection.
pub(super) fn encode_last(mut response: HttpResponse) -> Bytes {
    let head = response.head_mut();
    head.set_connection_type(ConnectionType::Close);
    encode(response)
}

/// Enough for the heads of nearly all of these responses.
const HEAD_BYTES: usize = 512;

/// The bytes of a response, which is the last one of its connection where its connection type says so.
#[expect(
    clippy::disallowed_methods,
    reason = "the date of the response is the machine's"
)]
pub(super) fn encode(response: HttpResponse) -> Bytes {
    let (response, body) = response.into_parts();
    let body = body.try_into_bytes().unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| bytes.extend_from_slice(part));
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    put(&[
        b"HTTP/1.1 ",
        status.as_str().as_bytes(),
        b" ",
        reason.as_bytes(),
    ]);
    if response.head().connection_type() == ConnectionType::Close {
        put(&[b"\r\nconnection: close"]);
    }
    for (name, value) in response.headers() {
        put(&[b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()]);
    }
    let now = HttpDate::from(SystemTime::now()).to_string();
    put(&[b"\r\ndate: ", now.as_bytes()]);
    let length = body.len().to_string();
    put(&[
        b"\r\ncontent-length: ",
        length.as_bytes(),
        b"\r\n\r\n",
        &body,
    ]);
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
    let response = encode_last(events.refusal(peer, ConnectionRefusal::ConnectionLimit));
    tcp.write_all(&response).await?;
    tcp.shutdown().await?;
    tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await?;
    Ok(())
}
