//! Responses of a realm with their journal outcome. Every error text was observed at Keycloak 26.7.4.

use std::borrow::Cow;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use iam_adapters::Refusal;
use serde_json::{Value, json};

use crate::iam::journal::Outcome;

/// A response that has not been sent, and its outcome for the journal.
#[derive(Debug)]
pub(super) struct RealmResponse {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    /// None for a 204.
    pub(super) body: Option<String>,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// The outcome in the journal.
    pub(super) outcome: Outcome,
    /// The subject and id of the session that a login began.
    pub(super) session: Option<(iam_adapters::Subject, String)>,
}

const JSON: &str = "application/json";
const HTML: &str = "text/html;charset=utf-8";

/// A page for browsers.
const PAGE: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Welcome</title></head>\
    <body><p>This page is for people.</p></body></html>\n";

impl RealmResponse {
    fn new(status: StatusCode, content_type: &'static str, body: String, outcome: Outcome) -> Self {
        Self {
            status,
            content_type,
            body: Some(body),
            header: None,
            outcome,
            session: None,
        }
    }

    /// 200 with JSON.
    #[expect(clippy::needless_pass_by_value, reason = "reads as `json!({…})`")]
    pub(super) fn json(body: Value) -> Self {
        Self::new(StatusCode::OK, JSON, body.to_string(), Outcome::Ok)
    }

    /// 200 of the introspection endpoint for a token without an active session (RFC 7662 section 2.2).
    pub(super) fn inactive() -> Self {
        Self {
            outcome: Outcome::Inactive,
            ..Self::json(json!({"active": false}))
        }
    }

    /// 204.
    pub(super) fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: None,
            ..Self::json(Value::Null)
        }
    }

    /// 200 without a body.
    pub(super) fn empty() -> Self {
        Self {
            status: StatusCode::OK,
            ..Self::no_content()
        }
    }

    /// 200 with a page of HTML.
    pub(super) fn page(outcome: Outcome) -> Self {
        Self::new(StatusCode::OK, HTML, PAGE.to_owned(), outcome)
    }

    /// 200 with truncated JSON.
    pub(super) fn unreadable() -> Self {
        let broken = r#"{"active":tr"#.to_owned();
        Self::new(StatusCode::OK, JSON, broken, Outcome::Fault("unreadable"))
    }

    /// Adds a header.
    pub(super) fn with(self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        Self {
            header: Some((name, value.into())),
            ..self
        }
    }

    /// The HTTP response.
    pub(super) fn into_http(self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        response.insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-store")));
        if let Some(pair) = self.header {
            response.insert_header(pair);
        }
        match self.body {
            None => response.finish(),
            Some(body) => response.content_type(self.content_type).body(body),
        }
    }
}

/// An error response (RFC 6749 section 5.2).
#[derive(Debug, Clone)]
pub(super) struct OAuthError {
    status: u16,
    error: &'static str,
    description: Cow<'static, str>,
    outcome: Outcome,
}

const fn client_error(status: u16, error: &'static str, description: &'static str) -> OAuthError {
    OAuthError {
        status,
        error,
        description: Cow::Borrowed(description),
        outcome: Outcome::Fault("misconfigured"),
    }
}

const fn invalid_grant(description: &'static str, outcome: Outcome) -> OAuthError {
    OAuthError {
        status: 400,
        error: "invalid_grant",
        description: Cow::Borrowed(description),
        outcome,
    }
}

const INVALID_CLIENT: &str = "Invalid client or Invalid client credentials";

impl OAuthError {
    pub(super) const REALM_DISABLED: Self = client_error(403, "access_denied", "Realm not enabled");
    pub(super) const HTTPS: Self = client_error(403, "invalid_request", "HTTPS required");
    pub(super) const NO_GRANT_TYPE: Self =
        client_error(400, "invalid_request", "Missing form parameter: grant_type");
    pub(super) const GRANT_TYPE: Self =
        client_error(400, "unsupported_grant_type", "Unsupported grant_type");
    pub(super) const REPEATED: Self = client_error(400, "invalid_request", "duplicated parameter");
    pub(super) const UNKNOWN_CLIENT: Self = client_error(401, "invalid_client", INVALID_CLIENT);
    pub(super) const SECRET: Self = client_error(401, "unauthorized_client", INVALID_CLIENT);
    /// The introspection endpoint has another text for a wrong secret.
    pub(super) const INTROSPECTION_SECRET: Self =
        client_error(401, "invalid_client", "Client authentication failed.");
    pub(super) const DIRECT_GRANTS: Self = client_error(
        400,
        "unauthorized_client",
        "Client not allowed for direct access grants",
    );
    pub(super) const SERVICE_ACCOUNT: Self = client_error(
        401,
        "unauthorized_client",
        "Client not enabled to retrieve service account",
    );
    /// The expected response to a probe, which sends no user name.
    pub(super) const NO_USERNAME: Self = OAuthError {
        status: 401,
        error: "invalid_request",
        description: Cow::Borrowed("Missing parameter: username"),
        outcome: Outcome::Ok,
    };
    pub(super) const NO_REFRESH_TOKEN: Self =
        client_error(400, "invalid_request", "No refresh token");
    pub(super) const NO_TOKEN: Self = client_error(400, "invalid_request", "Token not provided.");
    pub(super) const NO_REVOKED_TOKEN: Self =
        client_error(400, "invalid_request", "Token not provided");
    /// The status is 200, because the token is not valid any more (RFC 7009 section 2.2).
    pub(super) const REVOKED_TOKEN: Self = OAuthError {
        status: 200,
        error: "invalid_token",
        description: Cow::Borrowed("Invalid token"),
        outcome: Outcome::Inactive,
    };
    pub(super) const REVOKED_BY_OTHER: Self =
        client_error(400, "invalid_request", "Unmatching clients");
    pub(super) const TOKEN_TYPE: Self =
        client_error(400, "invalid_request", "Unsupported token type.");
    pub(super) const GARBAGE: Self = invalid_grant("Invalid refresh token", Outcome::Inactive);
    pub(super) const OTHER_CLIENT: Self = invalid_grant(
        "Invalid refresh token. Token client and authorized client don't match",
        Outcome::Inactive,
    );
    pub(super) const EXPIRED: Self = invalid_grant("Token is not active", Outcome::Inactive);
    pub(super) const SESSION_OVER: Self = invalid_grant("Session not active", Outcome::Inactive);
    pub(super) const USER_DISABLED: Self = invalid_grant("User disabled", Outcome::Inactive);

    /// The error of a refused login. A lock looks like a wrong password.
    pub(super) const fn login(refusal: Refusal) -> Self {
        let description = match refusal {
            Refusal::InvalidCredentials | Refusal::Locked => "Invalid user credentials",
            Refusal::Disabled => "Account disabled",
            Refusal::Incomplete => "Account is not fully set up",
        };
        invalid_grant(description, Outcome::Refused(refusal))
    }

    /// The token has another issuer than `expected`.
    pub(super) fn issuer(expected: &str) -> Self {
        let description = format!("Invalid token issuer. Expected '{expected}'");
        Self {
            description: Cow::Owned(description),
            ..client_error(400, "invalid_grant", "")
        }
    }

    /// 500.
    pub(super) const fn failed() -> Self {
        Self {
            status: 500,
            error: "unknown_error",
            description: Cow::Borrowed("For more on this error consult the server log."),
            outcome: Outcome::Fault("failed"),
        }
    }

    /// 429.
    pub(super) const fn throttled() -> Self {
        Self {
            status: 429,
            error: "temporarily_unavailable",
            description: Cow::Borrowed("Too many requests"),
            outcome: Outcome::Fault("throttled"),
        }
    }
}

impl From<OAuthError> for RealmResponse {
    fn from(error: OAuthError) -> Self {
        let body = json!({"error": error.error, "error_description": error.description});
        let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(status, JSON, body.to_string(), error.outcome)
    }
}

/// An error outside of OAuth, which has no description.
pub(super) fn plain_error(status: StatusCode, error: &str) -> HttpResponse {
    HttpResponse::build(status).json(json!({ "error": error }))
}
