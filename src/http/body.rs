//! A request's body: a JSON object or a form of bounded size, within a bounded time.

mod members;

use std::pin::pin;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use super::Front;
use super::crowd::Turn;
use super::dto::RequestBody;
use super::problem::{InvalidRequest, Problem};

/// The largest body. A login needs 2 KiB at most, an exchange 11.
pub(super) const BODY_BYTES_MAX: usize = 16 * 1024;

/// Reads a body of JSON in time, after everything that can be told without it.
///
/// # Errors
///
/// The [`Problem`] of a request that is not fit to be parsed.
pub(super) async fn read(
    request: &HttpRequest,
    payload: Payload,
    front: &Front,
) -> Result<Bytes, Problem> {
    // RFC 8259 section 11.
    read_as("application/json", request, payload, front).await
}

/// Reads a form as [`read`] does JSON.
///
/// # Errors
///
/// The [`Problem`] of a request that is not fit to be parsed.
pub(super) async fn read_form(
    request: &HttpRequest,
    payload: Payload,
    front: &Front,
) -> Result<Bytes, Problem> {
    let media_type = "application/x-www-form-urlencoded";
    read_as(media_type, request, payload, front).await
}

async fn read_as(
    media_type: &str,
    request: &HttpRequest,
    payload: Payload,
    front: &Front,
) -> Result<Bytes, Problem> {
    // Credentials in a query end up in logs all over the place (RFC 6750 section 2.3).
    if !request.query_string().is_empty() {
        return Err(Problem::InvalidRequest(InvalidRequest::Query));
    }
    let headers = request.headers();
    // One of each kind alone: of two, which would count?
    let mut types = headers.get_all(header::CONTENT_TYPE);
    let fit = types
        .next()
        .and_then(|value| value.to_str().ok())
        .is_some_and(|said| is(media_type, said))
        && types.next().is_none();
    let plain = headers
        .get_all(header::CONTENT_ENCODING)
        .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if !fit || !plain {
        return Err(Problem::UnsupportedMediaType);
    }
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(Problem::TooLarge);
    }
    let turn = request.conn_data::<Turn>();
    let body = within(front.patience.body, turn, collect(payload, BODY_BYTES_MAX)).await?;
    // Only now, because the connection of a request that was read whole can go on.
    if turn.is_some_and(|turn| turn.waited_longer_than(front.patience.queue)) {
        front.metrics.shed().behind.inc();
        return Err(Problem::Overloaded);
    }
    Ok(body)
}

/// Reads in time, and lets the client have its turn meanwhile.
///
/// # Errors
///
/// [`Problem::TooSlow`], and those of the reading.
pub(super) async fn within(
    patience: Duration,
    turn: Option<&Turn>,
    reading: impl Future<Output = Result<Bytes, Problem>>,
) -> Result<Bytes, Problem> {
    // Nearly always the body is there already, and no timer is needed.
    let mut reading = pin!(reading);
    let mut read = if let Some(read) = reading.as_mut().now_or_never() {
        read
    } else {
        if let Some(turn) = turn {
            turn.lend(Instant::now());
        }
        let read = tokio::time::timeout(patience, reading).await;
        if let Some(turn) = turn {
            turn.take();
        }
        read.unwrap_or(Err(Problem::TooSlow))
    };
    let (Err(problem), Some(turn)) = (&mut read, turn) else {
        return read;
    };
    // What is left of it is not waited for.
    turn.close();
    if let Some(fault) = turn.body_fault() {
        *problem = fault.into();
    }
    read
}

/// Neither JSON nor a form has a charset parameter, but UTF-8 is what many clients say.
fn is(media_type: &str, content_type: &str) -> bool {
    let (essence, parameter) = content_type
        .split_once(';')
        .map_or((content_type, ""), |(essence, parameter)| {
            (essence, parameter.trim())
        });
    essence.trim().eq_ignore_ascii_case(media_type)
        && ["", "charset=utf-8", "charset=\"utf-8\""]
            .iter()
            .any(|known| parameter.eq_ignore_ascii_case(known))
}

/// Without a copy where the body comes in one piece, as it nearly always does.
///
/// # Errors
///
/// [`Problem::TooLarge`] where there are more bytes than `most`, or the problem of a body that
/// broke off.
pub(super) async fn collect(mut payload: Payload, most: usize) -> Result<Bytes, Problem> {
    let mut whole = Bytes::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| Problem::InvalidRequest(InvalidRequest::Incomplete))?;
        if whole.len() + chunk.len() > most {
            return Err(Problem::TooLarge);
        }
        if whole.is_empty() {
            whole = chunk;
        } else {
            let mut joined = BytesMut::from(whole);
            joined.extend_from_slice(&chunk);
            whole = joined.freeze();
        }
    }
    Ok(whole)
}

/// Parses a body into its members.
///
/// # Errors
///
/// [`Problem::InvalidRequest`], without a word of what stood there.
pub(super) fn parse<'a, T: RequestBody<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    // serde would take an array for a struct as well.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::InvalidRequest(InvalidRequest::NotAnObject));
    }
    // Of members that nobody knows, serde would not look whether they are text.
    let text =
        std::str::from_utf8(body).map_err(|_| Problem::InvalidRequest(InvalidRequest::NotUtf8))?;
    // serde's own words quote values, so a second reading finds out what is wrong.
    serde_json::from_str(text)
        .map_err(|_| Problem::InvalidRequest(members::wrong(text, T::MEMBERS)))
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use actix_web::FromRequest as _;
    use actix_web::dev;
    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use futures_util::{Stream, stream};
    use serde::Deserialize;

    use super::*;
    use crate::http::dto::Presence;

    /// What comes of a body of which one byte arrives each second.
    async fn dripped(bytes: u64, patience: Duration) -> Result<Bytes, Problem> {
        let drips = stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            (sent < bytes).then_some((Ok(Bytes::from_static(b" ")), sent + 1))
        });
        let drips: Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>> = Box::pin(drips);
        let request = TestRequest::post().to_http_request();
        let mut payload = dev::Payload::from(drips);
        let payload = Payload::from_request(&request, &mut payload).await;
        within(
            patience,
            None,
            collect(payload.expect("a payload"), BODY_BYTES_MAX),
        )
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_is_for_the_whole_body_and_no_drip_prolongs_it() {
        let patience = Duration::from_secs(5);
        let whole = dripped(3, patience).await;
        assert_eq!(whole.expect("in time"), "   ");
        let late = dripped(u64::MAX, patience).await;
        assert!(matches!(late, Err(Problem::TooSlow)), "{late:?}");
    }

    #[test]
    fn a_body_is_text_also_where_nobody_reads_it() {
        #[derive(Debug, Deserialize)]
        struct Known {
            #[expect(dead_code, reason = "only whether it is read counts")]
            known: String,
        }
        impl RequestBody<'_> for Known {
            const MEMBERS: &'static [(&'static str, Presence)] = &[("known", Presence::Required)];
        }
        assert!(parse::<Known>(br#"{"known":"a","other":"\u00e9"}"#).is_ok());
        for bad in [
            b"{\"known\":\"\xe9\"}".as_slice(),
            b"{\"known\":\"a\",\"other\":\"\xe9\"}",
            b"{\"known\":\"a\",\"\xff\":1}",
        ] {
            assert!(parse::<Known>(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn json_is_known_by_its_media_type() {
        for fit in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "application/json; charset=\"utf-8\"",
        ] {
            assert!(is("application/json", fit), "{fit}");
        }
        for unfit in [
            "",
            "text/plain",
            "application/jsonp",
            "application/json; charset=utf-16",
            "application/x-www-form-urlencoded",
            "application/json, text/plain",
        ] {
            assert!(!is("application/json", unfit), "{unfit}");
        }
    }
}
