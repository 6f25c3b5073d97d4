//! The responses of the control API: JSON for successes, and the error format of the API. Errors are
//! precise, because the caller controls the mock; but they never contain a password.

use std::fmt;
use std::time::Duration;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, ResponseError};
use auth_gateway::http;
use auth_gateway_core::request::RequestId;
use jiff::Timestamp;
use serde::Serialize;

/// 200 with JSON.
pub(super) fn ok(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Ok().json(body)
}

/// 201 with JSON.
pub(super) fn created(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Created().json(body)
}

/// 204 without a body.
pub(super) fn no_content() -> HttpResponse {
    HttpResponse::NoContent().finish()
}

/// RFC 3339 in UTC, to the millisecond.
pub(super) fn time(unix: Duration) -> String {
    let millis = i64::try_from(unix.as_millis()).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

/// Another client may delete a namespace at any time.
const RETRY_AFTER_SECONDS: u64 = 2;

/// The codes of the `error` member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Code {
    InvalidRequest,
    NotFound,
    Conflict,
    TooManyNamespaces,
    TemporarilyUnavailable,
    MethodNotAllowed,
    UnsupportedMediaType,
    PayloadTooLarge,
    Forbidden,
    ServerError,
}

/// An error of a control call.
#[derive(Debug)]
pub(crate) struct ControlError {
    status: StatusCode,
    code: Code,
    description: String,
    allow: Option<&'static str>,
    /// In seconds.
    retry_after: Option<u64>,
}

impl ControlError {
    fn new(status: StatusCode, code: Code, description: impl Into<String>) -> Self {
        Self {
            status,
            code,
            description: description.into(),
            allow: None,
            retry_after: None,
        }
    }

    /// 400: the request is invalid.
    pub(crate) fn invalid(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, description)
    }

    /// 408: the body was not received in time.
    pub(super) fn too_slow() -> Self {
        let late = "the body was not received in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, Code::InvalidRequest, late)
    }

    /// 404.
    pub(super) fn not_found(description: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, description)
    }

    /// 409: the current state does not allow it.
    pub(super) fn conflict(description: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Code::Conflict, description)
    }

    /// 429 of a control call: no further namespace can be created.
    pub(super) fn too_many_namespaces(description: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, Code::TooManyNamespaces, description)
    }

    /// 429 of an API request: no further namespace can be created.
    pub(crate) fn try_later(description: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self {
            retry_after: Some(RETRY_AFTER_SECONDS),
            ..Self::new(status, Code::TemporarilyUnavailable, description)
        }
    }

    /// 405 with the allowed methods.
    pub(super) fn method(allowed: &'static str) -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let description = format!("this path allows {allowed}");
        Self {
            allow: Some(allowed),
            ..Self::new(status, Code::MethodNotAllowed, description)
        }
    }

    /// 415 with the accepted media types.
    pub(super) fn media_type(accepted: &[&str]) -> Self {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let description = format!("the content type must be {}", accepted.join(" or "));
        Self::new(status, Code::UnsupportedMediaType, description)
    }

    /// 413 with the limit in bytes.
    pub(super) fn too_large(max: usize) -> Self {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let description = format!("the body may have at most {max} bytes");
        Self::new(status, Code::PayloadTooLarge, description)
    }

    /// 403: `Host` is not an allowed host.
    pub(crate) fn forbidden_host() -> Self {
        let description = "this host may not be used for the mock: use an IP address, localhost, or \
                           a name that iam.mock.allowed_hosts lists, or --allowed-hosts of mock-iam";
        Self::new(StatusCode::FORBIDDEN, Code::Forbidden, description)
    }

    /// 403: a browser page of another origin sent the request.
    pub(crate) fn foreign_origin() -> Self {
        let description = "a page of another origin must not control the mock: the host in Origin \
                           must be that in Host";
        Self::new(StatusCode::FORBIDDEN, Code::Forbidden, description)
    }

    /// 500: the mock itself failed.
    pub(super) fn failed(description: impl Into<String>) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, Code::ServerError, description)
    }

    /// The response.
    pub(crate) fn response(&self, request_id: &RequestId) -> HttpResponse {
        #[derive(Serialize)]
        struct Body<'a> {
            error: Code,
            error_description: &'a str,
            request_id: &'a str,
        }

        let mut response = HttpResponse::build(self.status);
        if let Some(methods) = self.allow {
            response.insert_header((header::ALLOW, methods));
        }
        if let Some(seconds) = self.retry_after {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        response.json(Body {
            error: self.code,
            error_description: &self.description,
            request_id: request_id.as_str(),
        })
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// A handler returns it as an error; [`render_errors`], which has the request id, writes the
/// response.
impl ResponseError for ControlError {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status)
    }
}

/// The middleware around the control API: renders each error with its request id.
///
/// # Errors
///
/// Errors of the inner service that have no response.
pub(super) async fn render_errors(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = http::request_id(&request);
    let response = next.call(request).await?;
    let error = response.response().error();
    let mut response = match error.and_then(Error::as_error::<ControlError>) {
        Some(error) => {
            let rendered = error.response(&id);
            response.into_response(rendered)
        }
        None => response.map_into_boxed_body(),
    };
    let headers = response.headers_mut();
    headers.insert(http::X_REQUEST_ID, http::header_value(&id));
    no_store(headers);
    Ok(response)
}

/// Forbids caching of the response.
pub(crate) fn no_store(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_utc_with_milliseconds() {
        let at = Duration::from_micros(1_795_229_441_250_999);
        assert_eq!(time(at), "2026-11-21T02:50:41.250Z");
        assert_eq!(time(Duration::ZERO), "1970-01-01T00:00:00.000Z");
        assert!(time(Duration::MAX).starts_with("9999-"));
    }
}
