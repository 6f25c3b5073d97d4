//! What a request does with its connection: it reads its body, and it is responded to.

use std::pin::pin;
use std::time::Duration;

use actix_http::{ConnectionType, Request, Response};
use actix_service::Service;
use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, timeout};

use super::ConnectionTimeouts;
use super::connection::ConnectionState;
use super::framing::BodyFault;

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It did not arrive in time.
    Timeout,
    /// It has more bytes than it may have, or more chunk framing than data.
    TooLarge,
    /// The connection ended before the body did.
    Incomplete,
    /// Its chunks are not as RFC 9112 section 7.1 has them.
    MalformedChunks,
}

impl From<BodyFault> for BodyError {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::Malformed => Self::MalformedChunks,
            BodyFault::TooMuchFraming => Self::TooLarge,
        }
    }
}

/// Reads the body of a request within [`ConnectionTimeouts::body`]. The extractors of actix-web
/// bound the size only: a client that sends a byte now and then occupies a connection for ever.
///
/// # Errors
///
/// [`BodyError`]. Unless the length was known before, the connection ends with the response: what
/// is left of the body is not read.
pub async fn read_body(
    request: &HttpRequest,
    payload: Payload,
    max_bytes: usize,
) -> Result<Bytes, BodyError> {
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max_bytes as u64) {
        return Err(BodyError::TooLarge);
    }
    let connection = request.conn_data::<ConnectionState>();
    let limit = connection.map_or_else(
        || ConnectionTimeouts::default().body,
        |connection| connection.timeouts().body,
    );
    within(limit, connection, collect(payload, max_bytes)).await
}

/// Whether the request has certainly waited for its worker longer than
/// [`ConnectionTimeouts::queue_delay`]. To be asked when its body was read: then the connection can
/// serve the next request.
#[must_use]
pub fn is_overloaded(request: &HttpRequest) -> bool {
    request
        .conn_data::<ConnectionState>()
        .is_some_and(ConnectionState::is_overloaded)
}

/// Calls the application, and sets the connection's phase when it has made the response.
pub(super) fn respond<S, B>(
    request: Request,
    app: &S,
) -> impl Future<Output = Result<Response<B>, S::Error>> + use<S, B>
where
    S: Service<Request>,
    S::Response: Into<Response<B>>,
{
    let connection = request.conn_data::<ConnectionState>().cloned();
    let response = app.call(request);
    async move {
        let mut response = response.await.map(Into::<Response<B>>::into);
        if let Some(connection) = connection {
            if let (true, Ok(response)) = (connection.ends_with_response(), &mut response) {
                let head = response.head_mut();
                head.set_connection_type(ConnectionType::Close);
            }
            connection.begin_writing(Instant::now());
        }
        response
    }
}

async fn within(
    limit: Duration,
    connection: Option<&ConnectionState>,
    reading: impl Future<Output = Result<Bytes, BodyError>>,
) -> Result<Bytes, BodyError> {
    // Nearly always the body has arrived already, and no timer is needed.
    let mut reading = pin!(reading);
    let read = if let Some(read) = reading.as_mut().now_or_never() {
        read
    } else {
        if let Some(connection) = connection {
            connection.begin_reading_body(Instant::now());
        }
        let read = timeout(limit, reading).await;
        if let Some(connection) = connection {
            connection.begin_handling();
        }
        read.unwrap_or(Err(BodyError::Timeout))
    };
    read.map_err(|error| {
        let Some(connection) = connection else {
            return error;
        };
        connection.end_with_response();
        connection.body_error().unwrap_or(error)
    })
}

/// Without a copy where the body comes in one piece, as it nearly always does.
async fn collect(mut payload: Payload, max_bytes: usize) -> Result<Bytes, BodyError> {
    let mut body = Bytes::new();
    while let Some(part) = payload.next().await {
        let part = part.map_err(|_| BodyError::Incomplete)?;
        if body.len() + part.len() > max_bytes {
            return Err(BodyError::TooLarge);
        }
        if body.is_empty() {
            body = part;
        } else {
            let mut joined = BytesMut::from(body);
            joined.extend_from_slice(&part);
            body = joined.freeze();
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use actix_web::{FromRequest as _, dev};
    use futures_util::{Stream, stream};

    use super::*;

    type Parts = Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>>;

    async fn payload(parts: Parts) -> Payload {
        let request = TestRequest::post().to_http_request();
        let extracted = Payload::from_request(&request, &mut dev::Payload::from(parts)).await;
        extracted.expect("a payload")
    }

    /// The result of reading a body of which one byte arrives each second.
    async fn read_slowly(bytes: u64, limit: Duration) -> Result<Bytes, BodyError> {
        let parts = stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            (sent < bytes).then_some((Ok(Bytes::from_static(b" ")), sent + 1))
        });
        let payload = payload(Box::pin(parts)).await;
        within(limit, None, collect(payload, 1024)).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_for_the_whole_body_and_no_byte_extends_it() {
        let limit = Duration::from_secs(5);
        assert_eq!(read_slowly(3, limit).await, Ok(Bytes::from_static(b"   ")));
        assert_eq!(read_slowly(u64::MAX, limit).await, Err(BodyError::Timeout));
    }

    #[tokio::test]
    async fn a_body_may_have_so_many_bytes_and_no_more() {
        let read = async |max_bytes| {
            let parts = ["ab", "cd"].map(|part| Ok(Bytes::from_static(part.as_bytes())));
            collect(payload(Box::pin(stream::iter(parts))).await, max_bytes).await
        };
        assert_eq!(read(4).await, Ok(Bytes::from_static(b"abcd")));
        assert_eq!(read(3).await, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_length_that_is_too_large_is_refused_before_the_body_is_read() {
        let request = TestRequest::post()
            .insert_header((header::CONTENT_LENGTH, "5"))
            .to_http_request();
        let never = payload(Box::pin(stream::pending())).await;
        let read = read_body(&request, never, 4).await;
        assert_eq!(read, Err(BodyError::TooLarge));
    }
}
