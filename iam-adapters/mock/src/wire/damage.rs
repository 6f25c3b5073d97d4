//! What can happen to an answer on its way.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::web::Bytes;
use futures_util::stream::{self, Stream};
use tokio::time::sleep;

use super::told::Told;

/// How much is sent of a body that is too much.
const HUGE: usize = 10 << 20;

/// How much of it at once.
const PIECE: usize = 64 << 10;

/// The pause after each byte of a body that takes its time.
const PAUSE: Duration = Duration::from_millis(500);

/// What stands for the body of an answer that has none.
const NOTHING: &str = "                ";

/// What happens to an answer on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// Nothing.
    None,
    /// Half of its body comes, and then the end of the connection.
    Truncated,
    /// Its body comes byte by byte.
    Slow,
    /// 10 MiB come in its place.
    Huge,
}

impl Damage {
    /// The response that is left.
    pub(super) fn done_to(self, mut told: Told) -> HttpResponse {
        if self == Self::None {
            return told.response();
        }
        let body = told.body.take().unwrap_or_else(|| NOTHING.to_owned());
        if told.status == StatusCode::NO_CONTENT {
            told.status = StatusCode::OK;
        }
        let content_type = told.content_type;
        let head = told.response();
        let mut response = HttpResponse::build(head.status());
        response.content_type(content_type);
        let length = body.len() as u64;
        match self {
            Self::Slow => response.body(SizedStream::new(length, dripping(body.into()))),
            Self::Huge => response.streaming(spaces()),
            Self::None | Self::Truncated => {
                let (half, _) = body.split_at_checked(body.len() / 2).unwrap_or((&body, ""));
                let half = Bytes::copy_from_slice(half.as_bytes());
                response.body(SizedStream::new(length, breaking_off(half)))
            }
        }
    }
}

type Piece = Result<Bytes, actix_web::Error>;

/// Ends too early, and not before what there is has been sent: the wait lets the connection be
/// written to.
fn breaking_off(half: Bytes) -> impl Stream<Item = Piece> {
    stream::unfold(Some(half), |half| async {
        if let Some(half) = half {
            return Some((Ok(half), None));
        }
        tokio::task::yield_now().await;
        None
    })
}

fn dripping(body: Bytes) -> impl Stream<Item = Piece> {
    stream::unfold(body, |mut left| async {
        if left.is_empty() {
            return None;
        }
        sleep(PAUSE).await;
        let byte = left.split_to(1);
        Some((Ok(byte), left))
    })
}

fn spaces() -> impl Stream<Item = Piece> {
    let piece = Bytes::from(vec![b' '; PIECE]);
    stream::iter((0..HUGE / PIECE).map(move |_| Ok(piece.clone())))
}
