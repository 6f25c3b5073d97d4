//! The body of a request: a JSON object or a form.

mod members;

use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, Payload};

use super::Front;
use super::dto::RequestBody;
use super::problem::{InvalidRequest, Problem};
use crate::server::{self, BodyError};

/// The largest body. A login needs 2 KiB at most, an exchange 11.
const BODY_BYTES_MAX: usize = 16 * 1024;

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
    let body = server::read_body(request, payload, BODY_BYTES_MAX).await?;
    // Only now, because the connection can serve the next request once the body has been read.
    if server::is_overloaded(request) {
        front.metrics.shed().behind.inc();
        return Err(Problem::Overloaded);
    }
    Ok(body)
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Timeout => Self::TooSlow,
            BodyError::TooLarge => Self::TooLarge,
            BodyError::Incomplete => Self::InvalidRequest(InvalidRequest::Incomplete),
            BodyError::MalformedChunks => Self::InvalidRequest(InvalidRequest::Chunks),
        }
    }
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
    use serde::Deserialize;

    use super::*;
    use crate::http::dto::Presence;

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
