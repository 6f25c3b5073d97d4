//! Error responses: the third of three error types. Every body has one format (RFC 6749 section
//! 5.2) and depends only on the [`ApiError`] and the route. It never contains a text of the IAM, an input
//! or an internal error.

use std::error::Error as StdError;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use iam_adapters::name::Name as _;
use iam_adapters::{InvalidCredentials, InvalidScope};
use serde::Serialize;
use thiserror::Error;

use crate::audit::Unwritable;
use crate::telemetry::metrics::{Outcome, Route};
use auth_gateway_core::error::GatewayError;
use auth_gateway_core::request::RequestId;
use auth_gateway_core::revoked_sessions::NotRevocable;

use super::caching::no_store;

/// What an error code means (RFC 6749 section 5.2; `temporarily_unavailable` and `server_error` are those of
/// section 4.1.2.1).
const fn description(code: Outcome) -> &'static str {
    match code {
        Outcome::Ok | Outcome::Aborted => "",
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
    InvalidRequest(InvalidRequest),
    /// The scope is malformed (RFC 6749 section 3.3) or too long.
    InvalidScope(InvalidScope),
    /// `grant_type` is not `session`.
    UnsupportedGrantType,
    /// The body.
    TooLarge,
    /// There are too many headers, or they are too long.
    HeadersTooLarge,
    /// The body has another media type than this one, which the path requires, or it is encoded.
    UnsupportedMediaType(&'static str),
    /// The body did not arrive in time.
    TooSlow,
    NotFound,
    /// The path has only these methods.
    MethodNotAllowed(&'static str),
    /// The gateway is about to stop.
    Draining,
    Overloaded,
    /// A call for operators, but the settings have no token for them.
    NoOperatorToken,
    /// A call for operators without a bearer token.
    OperatorTokenMissing,
    /// A call for operators with a wrong bearer token.
    OperatorTokenInvalid,
    /// The operation needs a line in the audit log, which cannot be written.
    NotAudited(Unwritable),
    /// The handler did.
    Panic,
    /// The operation failed.
    Gateway(GatewayError),
}

/// Why a request is invalid, for the client. It has the name of the member and never its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidRequest {
    /// Queries, which may contain credentials, are logged (RFC 6750 section 2.3).
    #[error("A query is not allowed here.")]
    Query,
    #[error("The body is incomplete.")]
    Incomplete,
    /// RFC 9112 section 7.1.
    #[error("The chunks of the body are malformed.")]
    Chunks,
    /// RFC 8259 section 8.1.
    #[error("The body is not text in UTF-8.")]
    NotUtf8,
    #[error("The body is not a JSON object.")]
    NotAnObject,
    #[error("The body is not valid JSON.")]
    NotJson,
    #[error("The member `{0}` is missing.")]
    Missing(&'static str),
    /// A member of another type, `null` included.
    #[error("The member `{0}` must be a string.")]
    NotAString(&'static str),
    #[error("The member `{0}` must be true.")]
    NotTrue(&'static str),
    /// A misspelt member could change what a request does. Its name is that of the client, so it is not
    /// repeated.
    #[error("The body has an unknown member.")]
    UnknownMember,
    #[error("The body must have exactly one of the members {0}.")]
    NotExactlyOne(&'static str),
    #[error("The members `{0}` and `{1}` cannot be combined.")]
    NotTogether(&'static str, &'static str),
    /// A repeated member is ambiguous.
    #[error("The member `{0}` appears more than once.")]
    Repeated(&'static str),
    /// A value is never truncated.
    #[error("The member `{member}` is longer than {bytes_max} bytes.")]
    TooLong {
        member: &'static str,
        bytes_max: usize,
    },
    #[error("The member {0}.")]
    Credentials(InvalidCredentials),
    #[error("The member `{0}` is not an IP address.")]
    NotAnIpAddress(&'static str),
    #[error("The member `{0}` is not a session id.")]
    NotASessionId(&'static str),
    #[error("The member `{0}` must not be empty.")]
    Empty(&'static str),
    /// The IAM of the domain of the e-mail address does not have what the member is for.
    #[error("The member `{0}` is not supported by the IAM of this domain.")]
    Unsupported(&'static str),
    #[error("The member {0}.")]
    NotRevocable(NotRevocable),
    #[error("The member `{0}` is not a time with an offset, such as 2030-01-31T12:00:00Z.")]
    NotATime(&'static str),
    /// Sessions that do not exist yet cannot be revoked.
    #[error("The member `{0}` is in the future.")]
    InTheFuture(&'static str),
    #[error("The parameter `{0}` is missing.")]
    MissingParameter(&'static str),
    #[error("The parameter `{0}` appears more than once.")]
    RepeatedParameter(&'static str),
    #[error("The request is not a valid HTTP/1.1 request.")]
    NotHttp,
}

/// The parts of the response that depend on the error.
#[derive(Debug)]
struct ErrorAttributes {
    status: StatusCode,
    code: Outcome,
    /// The header that the status requires or allows.
    header: Option<(HeaderName, HeaderValue)>,
}

/// RFC 8259 section 11.
pub(super) const JSON: &str = "application/json";

pub(super) const FORM: &str = "application/x-www-form-urlencoded";

const LOGIN_CHALLENGE: &str = r#"Bearer realm="auth""#;
const TOKEN_CHALLENGE: &str = r#"Bearer realm="auth", error="invalid_token""#;
const OPERATOR_CHALLENGE: &str = r#"Bearer realm="management""#;
const OPERATOR_TOKEN_CHALLENGE: &str = r#"Bearer realm="management", error="invalid_token""#;

/// The time before a retry if the IAM asks for fewer calls and names none.
const THROTTLED_SECONDS: u64 = 5;

impl ErrorAttributes {
    const fn new(status: StatusCode, code: Outcome) -> Self {
        Self {
            status,
            code,
            header: None,
        }
    }

    /// A 401 has `WWW-Authenticate` (RFC 9110 section 15.5.2).
    fn challenged(code: Outcome, challenge: &'static str) -> Self {
        let challenge = HeaderValue::from_static(challenge);
        Self {
            header: Some((header::WWW_AUTHENTICATE, challenge)),
            ..Self::new(StatusCode::UNAUTHORIZED, code)
        }
    }

    /// `Retry-After` of this number of seconds.
    fn later(status: StatusCode, seconds: u64) -> Self {
        Self {
            header: Some((header::RETRY_AFTER, HeaderValue::from(seconds))),
            ..Self::new(status, Outcome::TemporarilyUnavailable)
        }
    }

    /// `Retry-After` of 2 or 3 seconds at random, so that clients do not retry at the same time.
    fn soon(status: StatusCode) -> Self {
        Self::later(status, 2 + RandomState::new().hash_one(()) % 2)
    }
}

impl ApiError {
    /// The parts of the response that depend on this error. The API has different statuses for its routes. `precise`:
    /// whether a fault of the IAM gets 502, 503 or 504 (`http.precise_backend_status`).
    #[deny(clippy::wildcard_enum_match_arm)]
    fn attributes(&self, route: Route, precise: bool) -> ErrorAttributes {
        let invalid = |status| ErrorAttributes::new(status, Outcome::InvalidRequest);
        let bad_request = |code| ErrorAttributes::new(StatusCode::BAD_REQUEST, code);
        match self {
            Self::InvalidRequest(_) => bad_request(Outcome::InvalidRequest),
            Self::InvalidScope(_) => bad_request(Outcome::InvalidScope),
            Self::UnsupportedGrantType => bad_request(Outcome::UnsupportedGrantType),
            Self::TooLarge => invalid(StatusCode::PAYLOAD_TOO_LARGE),
            Self::HeadersTooLarge => invalid(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Self::UnsupportedMediaType(_) => invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Self::TooSlow => invalid(StatusCode::REQUEST_TIMEOUT),
            Self::NotFound => invalid(StatusCode::NOT_FOUND),
            // A 405 has `Allow` (RFC 9110 section 15.5.6).
            Self::MethodNotAllowed(methods) => ErrorAttributes {
                header: Some((header::ALLOW, HeaderValue::from_static(methods))),
                ..invalid(StatusCode::METHOD_NOT_ALLOWED)
            },
            Self::Draining | Self::Overloaded | Self::NotAudited(_) => {
                ErrorAttributes::soon(StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::NoOperatorToken => {
                ErrorAttributes::new(StatusCode::FORBIDDEN, Outcome::AccessDenied)
            }
            // RFC 6750 section 3.1: a request without a token gets no error in the challenge.
            Self::OperatorTokenMissing => {
                ErrorAttributes::challenged(Outcome::InvalidToken, OPERATOR_CHALLENGE)
            }
            Self::OperatorTokenInvalid => {
                ErrorAttributes::challenged(Outcome::InvalidToken, OPERATOR_TOKEN_CHALLENGE)
            }
            Self::Panic => {
                ErrorAttributes::new(StatusCode::INTERNAL_SERVER_ERROR, Outcome::ServerError)
            }
            Self::Gateway(error) => attributes_of(error, route, precise),
        }
    }

    /// The cause for the log, if there is one beside the code.
    pub(super) fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Gateway(error) => Some(error),
            Self::InvalidRequest(reason) => Some(reason),
            Self::InvalidScope(reason) => Some(reason),
            Self::NotAudited(reason) => Some(reason),
            _ => None,
        }
    }

    /// The response, and its outcome for log and metrics. `route` and `precise` are as in [`Self::attributes`].
    pub(super) fn response(
        &self,
        request_id: &RequestId,
        route: Route,
        precise: bool,
    ) -> (HttpResponse, Outcome) {
        #[derive(Serialize)]
        struct Body<'a> {
            error: &'static str,
            error_description: String,
            request_id: &'a str,
        }

        let attributes = self.attributes(route, precise);
        let mut response = HttpResponse::build(attributes.status);
        no_store(&mut response);
        if let Some(header) = attributes.header {
            response.insert_header(header);
        }
        let response = response.json(Body {
            error: attributes.code.name(),
            error_description: self.text(route, attributes.code),
            request_id: request_id.as_str(),
        });
        (response, attributes.code)
    }

    /// The text for developers of clients. All invalid session tokens get one description, and so do all
    /// invalid logout tokens.
    fn text(&self, route: Route, code: Outcome) -> String {
        let text = match self {
            Self::InvalidRequest(reason) => return reason.to_string(),
            Self::InvalidScope(reason) => return format!("The member `scope` {reason}."),
            Self::UnsupportedGrantType => "The member `grant_type` must be `session`.",
            Self::NotFound => {
                "This path does not exist. Applications call `/api/v1/auth/login`, `/api/v1/auth/token` and \
                 `/api/v1/auth/logout`, written exactly so."
            }
            Self::MethodNotAllowed(methods) => {
                return format!("This path is only for {}.", methods.replace(", ", " and "));
            }
            Self::TooSlow => "The request did not arrive completely in time.",
            Self::TooLarge => "The body has more than 16 KiB, or its chunks have only a few bytes.",
            Self::HeadersTooLarge => {
                "The request line and the headers have more than 8 KiB, or there are more than 96 headers."
            }
            Self::UnsupportedMediaType(media_type) => {
                let form = if *media_type == FORM {
                    "a form"
                } else {
                    "JSON"
                };
                return format!(
                    "The body must be {form}, with the header `Content-Type: {media_type}`, and not compressed."
                );
            }
            Self::Gateway(GatewayError::NoLogoutTokens) => {
                "No IAM of this gateway sends logout tokens."
            }
            Self::Gateway(GatewayError::InvalidSession(_)) if route == Route::Logout => {
                "The members `session_id` and `session_token` are not those of a session."
            }
            Self::Gateway(GatewayError::InvalidLogoutToken(_)) => {
                "The parameter `logout_token` is not a valid logout token."
            }
            Self::Gateway(GatewayError::NothingGranted) => {
                "None of the names in the member `scope` can be granted."
            }
            _ => description(code),
        };
        text.to_owned()
    }
}

#[deny(clippy::wildcard_enum_match_arm)]
fn attributes_of(error: &GatewayError, route: Route, precise: bool) -> ErrorAttributes {
    let fault = |status| {
        if precise {
            status
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    match error {
        GatewayError::Refused(_) if route == Route::Login => {
            ErrorAttributes::challenged(Outcome::InvalidGrant, LOGIN_CHALLENGE)
        }
        GatewayError::InvalidSession(_)
            if matches!(route, Route::Logout | Route::BackchannelLogout) =>
        {
            ErrorAttributes::new(StatusCode::BAD_REQUEST, Outcome::InvalidRequest)
        }
        GatewayError::InvalidSession(_) => {
            ErrorAttributes::challenged(Outcome::InvalidGrant, TOKEN_CHALLENGE)
        }
        // OpenID Connect Back-Channel Logout 1.0 section 2.8.
        GatewayError::InvalidLogoutToken(_) => {
            ErrorAttributes::new(StatusCode::BAD_REQUEST, Outcome::InvalidRequest)
        }
        GatewayError::NoLogoutTokens => {
            ErrorAttributes::new(StatusCode::NOT_FOUND, Outcome::InvalidRequest)
        }
        GatewayError::NothingGranted => {
            ErrorAttributes::new(StatusCode::BAD_REQUEST, Outcome::InvalidScope)
        }
        GatewayError::Unavailable(_) => {
            ErrorAttributes::soon(fault(StatusCode::SERVICE_UNAVAILABLE))
        }
        GatewayError::TooSlow(_) => ErrorAttributes::soon(fault(StatusCode::GATEWAY_TIMEOUT)),
        // Only a login can be refused. Otherwise the adapter has a defect.
        GatewayError::Broken(_) | GatewayError::Refused(_) => {
            ErrorAttributes::new(fault(StatusCode::BAD_GATEWAY), Outcome::ServerError)
        }
        GatewayError::TooManyLogins { retry_after, .. }
        | GatewayError::TooManyLogoutTokens { retry_after } => {
            ErrorAttributes::later(StatusCode::TOO_MANY_REQUESTS, whole_seconds(*retry_after))
        }
        GatewayError::Throttled { retry_after, .. } => {
            let seconds = retry_after.map_or(THROTTLED_SECONDS, whole_seconds);
            ErrorAttributes::later(StatusCode::TOO_MANY_REQUESTS, seconds)
        }
        GatewayError::Full(_) | GatewayError::NotReady(_) => {
            ErrorAttributes::soon(StatusCode::SERVICE_UNAVAILABLE)
        }
        GatewayError::Internal(_) => {
            ErrorAttributes::new(StatusCode::INTERNAL_SERVER_ERROR, Outcome::ServerError)
        }
    }
}

/// Whole seconds (RFC 9110 section 10.2.3), rounded up. At least one, so that clients do not loop.
fn whole_seconds(pause: Duration) -> u64 {
    let begun = u64::from(pause.subsec_nanos() > 0);
    pause.as_secs().saturating_add(begun).max(1)
}

impl From<Unwritable> for ApiError {
    fn from(unwritable: Unwritable) -> Self {
        Self::NotAudited(unwritable)
    }
}

/// Only for [`ResponseError`]: the text of the response depends on the route.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request failed")
    }
}

/// A handler returns it. The middleware, which has the route and the request id, makes the response.
impl ResponseError for ApiError {
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.attributes(Route::Other, false).status)
    }
}
