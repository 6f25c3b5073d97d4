//! The response to a connection beyond the limit.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::http::problem::Problem;
use crate::http::{Front, edge};

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
