//! The table from errors to responses.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use actix_web::http::StatusCode;

use super::ApiError;
use crate::telemetry::metrics::{Outcome, Route};
use auth_gateway_core::error::{GatewayError, InvalidSession};

/// The parts of the response that depend on the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorAttributes {
    /// The status.
    pub status: StatusCode,
    /// The `error` member.
    pub code: Outcome,
    /// `WWW-Authenticate` of a 401 (RFC 9110 section 15.5.2).
    pub challenge: Option<&'static str>,
    /// `Retry-After`.
    pub retry_after: Option<RetryAfter>,
    /// `Allow` of a 405 (RFC 9110 section 15.5.6).
    pub allow: Option<&'static str>,
}

/// The time before a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// 2 or 3 seconds at random, so that clients do not retry at the same time.
    Soon,
    /// A number of seconds.
    Seconds(u64),
}

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
            challenge: None,
            retry_after: None,
            allow: None,
        }
    }

    const fn challenged(code: Outcome, challenge: &'static str) -> Self {
        Self {
            challenge: Some(challenge),
            ..Self::new(StatusCode::UNAUTHORIZED, code)
        }
    }

    const fn later(status: StatusCode, retry_after: RetryAfter) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(status, Outcome::TemporarilyUnavailable)
        }
    }
}

impl ApiError {
    /// The parts of the response that depend on this error.
    #[must_use]
    pub fn attributes(&self) -> ErrorAttributes {
        let bad_request = |code| ErrorAttributes::new(StatusCode::BAD_REQUEST, code);
        let invalid = |status| ErrorAttributes::new(status, Outcome::InvalidRequest);
        match self {
            Self::InvalidRequest(_) => bad_request(Outcome::InvalidRequest),
            Self::InvalidScope(_) => bad_request(Outcome::InvalidScope),
            Self::UnsupportedGrantType => bad_request(Outcome::UnsupportedGrantType),
            Self::TooLarge => invalid(StatusCode::PAYLOAD_TOO_LARGE),
            Self::HeadersTooLarge => invalid(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Self::UnsupportedMediaType => invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Self::TooSlow => invalid(StatusCode::REQUEST_TIMEOUT),
            Self::NotFound => invalid(StatusCode::NOT_FOUND),
            Self::MethodNotAllowed(methods) => ErrorAttributes {
                allow: Some(methods),
                ..invalid(StatusCode::METHOD_NOT_ALLOWED)
            },
            Self::Draining | Self::Overloaded | Self::NotAudited(_) => {
                ErrorAttributes::later(StatusCode::SERVICE_UNAVAILABLE, RetryAfter::Soon)
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
            Self::Gateway {
                route,
                error,
                precise,
            } => backend(*route, error, *precise),
        }
    }
}

fn backend(route: Route, error: &GatewayError, precise: bool) -> ErrorAttributes {
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
        GatewayError::InvalidSession(
            InvalidSession::Malformed
            | InvalidSession::UnknownKey
            | InvalidSession::Tampered
            | InvalidSession::Mismatch
            | InvalidSession::Foreign
            | InvalidSession::Expired
            | InvalidSession::Revoked
            | InvalidSession::Ended,
        ) => {
            if matches!(route, Route::Logout | Route::BackchannelLogout) {
                ErrorAttributes::new(StatusCode::BAD_REQUEST, Outcome::InvalidRequest)
            } else {
                ErrorAttributes::challenged(Outcome::InvalidGrant, TOKEN_CHALLENGE)
            }
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
            ErrorAttributes::later(fault(StatusCode::SERVICE_UNAVAILABLE), RetryAfter::Soon)
        }
        GatewayError::TooSlow(_) => {
            ErrorAttributes::later(fault(StatusCode::GATEWAY_TIMEOUT), RetryAfter::Soon)
        }
        // Only a login can be refused. Otherwise the adapter has a defect.
        GatewayError::Broken(_) | GatewayError::Refused(_) => {
            ErrorAttributes::new(fault(StatusCode::BAD_GATEWAY), Outcome::ServerError)
        }
        GatewayError::TooManyLogins { retry_after, .. }
        | GatewayError::TooManyLogoutTokens { retry_after } => ErrorAttributes::later(
            StatusCode::TOO_MANY_REQUESTS,
            RetryAfter::Seconds(whole_seconds(*retry_after)),
        ),
        GatewayError::Throttled { retry_after, .. } => {
            let seconds = retry_after.map_or(THROTTLED_SECONDS, whole_seconds);
            ErrorAttributes::later(StatusCode::TOO_MANY_REQUESTS, RetryAfter::Seconds(seconds))
        }
        GatewayError::Full(_) | GatewayError::NotReady(_) => {
            ErrorAttributes::later(StatusCode::SERVICE_UNAVAILABLE, RetryAfter::Soon)
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
