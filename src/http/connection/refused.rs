//! What is told where there is no request to answer.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::http::problem::Problem;
use crate::http::{Front, edge};

/// actix answers what it cannot parse by itself, and with nothing in it.
pub(super) fn refusal(bytes: &[u8]) -> Option<Problem> {
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

/// Tells a client that there is no place for it, and reads until it has understood.
///
/// # Errors
///
/// Where the client is gone.
pub async fn turn_away(
    mut tcp: TcpStream,
    peer: Option<SocketAddr>,
    front: &Front,
) -> io::Result<()> {
    let said = edge::refuse(front, peer, &Problem::Overloaded);
    tcp.write_all(&said).await?;
    tcp.shutdown().await?;
    tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await?;
    Ok(())
}
