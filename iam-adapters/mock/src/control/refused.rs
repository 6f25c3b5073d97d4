//! Why a control call gets no success: the shape of the API's errors, and words of its own. Those
//! who control a mock sit in front of it, so they are told exactly what is wrong; but never a
//! password, not even their own.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::{HttpResponse, ResponseError};
use auth_gateway::http::RequestId;
use serde::Serialize;

/// A namespace may be forgotten at any time.
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

/// A control call that is refused, or that failed.
#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    code: Code,
    description: String,
    allow: Option<&'static str>,
    /// In seconds.
    retry_after: Option<u64>,
}

impl Refused {
    fn new(status: StatusCode, code: Code, description: impl Into<String>) -> Self {
        Self {
            status,
            code,
            description: description.into(),
            allow: None,
            retry_after: None,
        }
    }

    /// The request itself is at fault.
    pub(crate) fn invalid(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, description)
    }

    /// The body did not come in time.
    pub(super) fn too_slow() -> Self {
        let late = "the body did not come in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, Code::InvalidRequest, late)
    }

    /// There is no such thing.
    pub(super) fn not_found(description: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, description)
    }

    /// What is asked for cannot be, as things stand.
    pub(super) fn conflict(description: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Code::Conflict, description)
    }

    /// There are as many namespaces as there may be.
    pub(super) fn too_many_namespaces(description: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, Code::TooManyNamespaces, description)
    }

    /// A request of the API for one namespace too many.
    pub(crate) fn try_later(description: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self {
            retry_after: Some(RETRY_AFTER_SECONDS),
            ..Self::new(status, Code::TemporarilyUnavailable, description)
        }
    }

    /// The path has other methods: these.
    pub(super) fn method(allowed: &'static str) -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let description = format!("this path takes {allowed}");
        Self {
            allow: Some(allowed),
            ..Self::new(status, Code::MethodNotAllowed, description)
        }
    }

    /// The body is of another media type than these.
    pub(super) fn media_type(taken: &[&str]) -> Self {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let description = format!("the content type must be {}", taken.join(" or "));
        Self::new(status, Code::UnsupportedMediaType, description)
    }

    /// The body is larger than so many bytes.
    pub(super) fn too_large(most: usize) -> Self {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let description = format!("the body may have {most} bytes at most");
        Self::new(status, Code::PayloadTooLarge, description)
    }

    /// The host in `Host` may be anybody's.
    pub(crate) fn forbidden_host() -> Self {
        let description = "this host may not be used for the mock: use an IP address, localhost, or \
                           a name that management.allowed_hosts lists";
        Self::new(StatusCode::FORBIDDEN, Code::Forbidden, description)
    }

    /// A page of another origin asks.
    pub(crate) fn foreign_origin() -> Self {
        let description = "a page of another origin may not control the mock: the host in Origin \
                           must be that in Host";
        Self::new(StatusCode::FORBIDDEN, Code::Forbidden, description)
    }

    /// The mock itself failed.
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

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// A handler returns it as an error; the edge, which knows the request id, writes the response.
impl ResponseError for Refused {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status)
    }
}
