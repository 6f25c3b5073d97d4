//! The bodies of requests: a JSON object or a form.

use std::fmt;

use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, Payload};
use iam_adapters::json::{self, InvalidObject};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::telemetry::metrics::ShedCause;

use super::api_error::{ApiError, InvalidRequest};
use super::app_state::AppState;
use auth_gateway_server::BodyError;

/// The largest body. A login needs 2 KiB at most, an exchange 11.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Whether a member of a request is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
    /// It may be absent, and has no other value than `true`.
    OptionalTrue,
}

/// The body of a request: a JSON object whose known members are strings or `true`, each present at
/// most once.
pub(super) trait RequestBody<'a>: Deserialize<'a> {
    /// The known members.
    const MEMBERS: &'static [(&'static str, Presence)];
    /// Whether a body with other members is refused. Otherwise they are ignored.
    const REFUSES_OTHERS: bool = false;
}

/// Reads a body of this media type, after checking everything that can be checked without it.
pub(super) async fn read(
    media_type: &'static str,
    request: &HttpRequest,
    payload: Payload,
    app_state: &AppState,
) -> Result<Bytes, ApiError> {
    // Proxies and servers log queries (RFC 6750 section 2.3).
    if !request.query_string().is_empty() {
        return Err(ApiError::InvalidRequest(InvalidRequest::Query));
    }
    let headers = request.headers();
    // Exactly one: servers differ in which of two they use.
    let mut types = headers.get_all(header::CONTENT_TYPE);
    let is_media_type = types
        .next()
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| is(media_type, value))
        && types.next().is_none();
    let is_plain = headers
        .get_all(header::CONTENT_ENCODING)
        .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if !is_media_type || !is_plain {
        return Err(ApiError::UnsupportedMediaType(media_type));
    }
    let body = auth_gateway_server::read_body(request, payload, BODY_BYTES_MAX).await?;
    // Only now, because the connection can serve the next request once the body has been read.
    if auth_gateway_server::is_overloaded(request) {
        app_state.metrics.shed(ShedCause::Behind);
        return Err(ApiError::Overloaded);
    }
    Ok(body)
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Timeout => Self::TooSlow,
            BodyError::TooLarge => Self::TooLarge,
            BodyError::Incomplete => Self::InvalidRequest(InvalidRequest::Incomplete),
            BodyError::MalformedChunks => Self::InvalidRequest(InvalidRequest::Chunks),
        }
    }
}

/// Neither JSON nor a form has a charset parameter, but many clients send UTF-8.
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

/// Parses a body into its members. The error quotes nothing of the body.
pub(super) fn parse<'a, T: RequestBody<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    json::object(body).map_err(|invalid| {
        ApiError::InvalidRequest(match invalid {
            InvalidObject::NotAnObject => InvalidRequest::NotAnObject,
            InvalidObject::NotUtf8 => InvalidRequest::NotUtf8,
            // The errors of serde quote values, so a second pass finds the problem.
            InvalidObject::Members => wrong_member(body, T::MEMBERS, T::REFUSES_OTHERS),
        })
    })
}

/// The first problem of a body in the order of the text. Missing members come last.
fn wrong_member(
    body: &[u8],
    members: &'static [(&'static str, Presence)],
    refuses_others: bool,
) -> InvalidRequest {
    let mut found = InvalidRequest::NotJson;
    let mut json = serde_json::Deserializer::from_slice(body);
    // The problem is in `found`: the error of serde may quote the text.
    let _ = json.deserialize_map(FirstProblem {
        known: members,
        refuses_others,
        found: &mut found,
    });
    found
}

struct FirstProblem<'a> {
    known: &'static [(&'static str, Presence)],
    refuses_others: bool,
    found: &'a mut InvalidRequest,
}

impl FirstProblem<'_> {
    fn refuse<E: serde::de::Error>(self, found: InvalidRequest) -> E {
        *self.found = found;
        E::custom(found)
    }
}

impl<'de> Visitor<'de> for FirstProblem<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let Some((name, presence)) = self.known.iter().find(|(known, _)| *known == name) else {
                if self.refuses_others {
                    return Err(self.refuse(InvalidRequest::UnknownMember));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen.contains(name) {
                return Err(self.refuse(InvalidRequest::Repeated(name)));
            }
            seen.push(name);
            match (presence, map.next_value::<Value>()?) {
                (Presence::Required | Presence::Optional, Value::String(_))
                | (Presence::OptionalTrue, Value::Bool(true)) => {}
                (Presence::Required | Presence::Optional, _) => {
                    return Err(self.refuse(InvalidRequest::NotAString(name)));
                }
                (Presence::OptionalTrue, _) => {
                    return Err(self.refuse(InvalidRequest::NotTrue(name)));
                }
            }
        }
        for (name, presence) in self.known {
            if *presence == Presence::Required && !seen.contains(name) {
                return Err(self.refuse(InvalidRequest::Missing(name)));
            }
        }
        Err(A::Error::custom("nothing is wrong with a member"))
    }
}

/// Deserializes a member that may be absent, and must not be `null`.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn body_with_invalid_utf8_in_an_unknown_member_is_refused() {
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
    fn json_media_type_is_accepted_with_utf8_as_charset_only() {
        for accepted in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "application/json; charset=\"utf-8\"",
        ] {
            assert!(is("application/json", accepted), "{accepted}");
        }
        for refused in [
            "",
            "text/plain",
            "application/jsonp",
            "application/json; charset=utf-16",
            "application/x-www-form-urlencoded",
            "application/json, text/plain",
        ] {
            assert!(!is("application/json", refused), "{refused}");
        }
    }
}
