//! What is told where there is no request to answer.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::http::problem::{InvalidRequest, Problem};
use crate::http::{Front, edge};

/// actix answers what it cannot parse by itself, and with nothing in it. Where that begins in what
/// it writes, and what is to be told in its place; before it may stand answers to other requests.
pub(super) fn refusal(bytes: &[u8]) -> Option<(usize, Problem)> {
    // The date and the like; every answer of our own to a client that was not refused has a body.
    const LONGEST: usize = 160;
    if !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let tail = bytes.len().saturating_sub(LONGEST);
    let within = bytes.get(tail..)?;
    let begin = tail
        + within
            .windows(13)
            .rposition(|here| here == b"HTTP/1.1 400 " || here == b"HTTP/1.1 431 ")?;
    let empty = |status: &str| {
        bytes
            .get(begin..)
            .and_then(|answer| answer.strip_prefix(b"HTTP/1.1 "))
            .and_then(|answer| answer.strip_prefix(status.as_bytes()))
            .is_some_and(|rest| rest.starts_with(b"\r\ncontent-length: 0\r\n"))
    };
    if empty("400 Bad Request") {
        let problem = Problem::InvalidRequest(InvalidRequest::NotHttp);
        Some((begin, problem))
    } else if empty("431 Request Header Fields Too Large") {
        Some((begin, Problem::HeadersTooLarge))
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
