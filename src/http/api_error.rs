//! Error responses: the third of three error types. Every body has one format (RFC 6749 section
//! 5.2) and depends only on the [`ApiError`]. It never contains a text of the IAM, an input or an
//! internal error.

#![deny(clippy::wildcard_enum_match_arm)]

mod invalid_request;
mod table;

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use iam_adapters::InvalidScope;
use iam_adapters::name::Name as _;
use serde::Serialize;

use crate::audit::Unwritable;
use crate::telemetry::metrics::{Outcome, Route};
use auth_gateway_core::error::GatewayError;
use auth_gateway_core::request::RequestId;

use super::body::no_store;

pub use invalid_request::InvalidRequest;
pub use table::{ErrorAttributes, RetryAfter};

/// What an error code means (RFC 6749 section 5.2; `temporarily_unavailable` and `server_error` are those of
/// section 4.1.2.1).
const fn description(code: Outcome) -> &'static str {
    match code {
        Outcome::Ok => "",
        Outcome::InvalidRequest => "The request is malformed or not allowed here.",
        Outcome::InvalidGrant => "The credentials or the session are not valid.",
        Outcome::InvalidScope => "The requested scope is not valid.",
        Outcome::UnsupportedGrantType => "The grant type is not supported.",
        Outcome::TemporarilyUnavailable => "The service cannot answer now. Try again later.",
        Outcome::ServerError => "The service failed.",
        Outcome::InvalidToken => "The bearer token is missing or not valid.",
        Outcome::AccessDenied => {
            "This call needs management.token or management.token_file to be set."
        }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub enum ApiError {
    /// The request is invalid.
    InvalidRequest(InvalidRequest),
    /// The scope is malformed (RFC 6749 section 3.3) or too long.
    InvalidScope(InvalidScope),
    /// `grant_type` is not `session`.
    UnsupportedGrantType,
    /// The body is too large.
    TooLarge,
    /// There are too many headers, or they are too long.
    HeadersTooLarge,
    /// The body has another media type than the path requires.
    UnsupportedMediaType,
    /// The body did not arrive in time.
    TooSlow,
    /// No such path.
    NotFound,
    /// The path has only these methods.
    MethodNotAllowed(&'static str),
    /// The gateway is about to stop.
    Draining,
    /// The gateway is overloaded.
    Overloaded,
    /// A call for operators, but the settings have no token for them.
    NoOperatorToken,
    /// A call for operators without a bearer token.
    OperatorTokenMissing,
    /// A call for operators with a wrong bearer token.
    OperatorTokenInvalid,
    /// The operation needs a line in the audit log, which cannot be written.
    NotAudited(Unwritable),
    /// The handler panicked.
    Panic,
    /// The operation failed.
    Gateway {
        /// The route of the operation: the API has different statuses for them.
        route: Route,
        /// Why it failed.
        error: GatewayError,
        /// Whether a fault of the IAM gets 502, 503 or 504 (`http.precise_backend_status`).
        precise: bool,
    },
}

impl ApiError {
    /// The cause for the log, if there is one beside the code.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Gateway { error, .. } => Some(error),
            Self::InvalidRequest(reason) => Some(reason),
            Self::InvalidScope(reason) => Some(reason),
            Self::NotAudited(reason) => Some(reason),
            Self::UnsupportedGrantType
            | Self::TooLarge
            | Self::HeadersTooLarge
            | Self::UnsupportedMediaType
            | Self::TooSlow
            | Self::NotFound
            | Self::MethodNotAllowed(_)
            | Self::Draining
            | Self::Overloaded
            | Self::NoOperatorToken
            | Self::OperatorTokenMissing
            | Self::OperatorTokenInvalid
            | Self::Panic => None,
        }
    }

    /// The text for developers of clients. All invalid session tokens get one description, and so do all
    /// invalid logout tokens.
    #[must_use]
    pub fn description(&self) -> Cow<'static, str> {
        let fixed = match self {
            Self::InvalidRequest(reason) => return reason.to_string().into(),
            Self::InvalidScope(reason) => {
                return format!("The member `scope` {reason}.").into();
            }
            Self::UnsupportedGrantType => "The member `grant_type` must be `session`.",
            Self::Gateway {
                route: Route::Logout,
                error: GatewayError::InvalidSession(_),
                ..
            } => "The members `session_id` and `session_token` are not those of a session.",
            Self::Gateway {
                error: GatewayError::InvalidLogoutToken(_),
                ..
            } => "The parameter `logout_token` is not a valid logout token.",
            Self::Gateway {
                error: GatewayError::NothingGranted,
                ..
            } => "None of the names in the member `scope` can be granted.",
            Self::TooLarge
            | Self::HeadersTooLarge
            | Self::UnsupportedMediaType
            | Self::TooSlow
            | Self::NotFound
            | Self::MethodNotAllowed(_)
            | Self::Draining
            | Self::Overloaded
            | Self::NoOperatorToken
            | Self::OperatorTokenMissing
            | Self::OperatorTokenInvalid
            | Self::NotAudited(_)
            | Self::Panic
            | Self::Gateway { .. } => description(self.attributes().code),
        };
        fixed.into()
    }

    /// The response.
    #[must_use]
    pub fn response(&self, request_id: &RequestId) -> HttpResponse {
        #[derive(Serialize)]
        struct Body<'a> {
            error: &'static str,
            error_description: Cow<'static, str>,
            request_id: &'a str,
        }

        let attributes = self.attributes();
        let mut response = HttpResponse::build(attributes.status);
        no_store(&mut response);
        if let Some(challenge) = attributes.challenge {
            response.insert_header(fixed(header::WWW_AUTHENTICATE, challenge));
        }
        if let Some(methods) = attributes.allow {
            response.insert_header(fixed(header::ALLOW, methods));
        }
        match attributes.retry_after {
            None => {}
            Some(RetryAfter::Seconds(seconds)) => {
                response.insert_header((header::RETRY_AFTER, seconds));
            }
            Some(RetryAfter::Soon) => {
                // A random second, from the request id.
                let spread = request_id.as_str().bytes().fold(0, u8::wrapping_add) % 2;
                response.insert_header((header::RETRY_AFTER, 2 + u64::from(spread)));
            }
        }
        response.json(Body {
            error: attributes.code.name(),
            error_description: self.description(),
            request_id: request_id.as_str(),
        })
    }
}

fn fixed(name: HeaderName, value: &'static str) -> (HeaderName, HeaderValue) {
    (name, HeaderValue::from_static(value))
}

impl From<Unwritable> for ApiError {
    fn from(unwritable: Unwritable) -> Self {
        Self::NotAudited(unwritable)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.attributes().code.name())
    }
}

/// A handler returns it. The middleware, which has the request id, makes the
/// response.
impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.attributes().status
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}
