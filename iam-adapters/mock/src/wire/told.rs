//! What is told, and what is written down of it. Every refusal that a Keycloak was seen to make
//! stands here, word for word.

use std::borrow::Cow;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use iam_adapters::Refusal;
use serde_json::{Value, json};

use crate::iam::journal::Outcome;

/// An answer, not yet sent.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    /// None where there is none, as in a 204.
    pub(super) body: Option<String>,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// What the journal calls it.
    pub(super) outcome: Outcome,
    /// Whose session it began, and which.
    pub(super) began: Option<(iam_adapters::Subject, String)>,
}

const JSON: &str = "application/json";
const HTML: &str = "text/html;charset=utf-8";

/// A page for people.
const PAGE: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Welcome</title></head>\
    <body><p>This page is for people.</p></body></html>\n";

impl Told {
    fn new(status: StatusCode, content_type: &'static str, body: String, outcome: Outcome) -> Self {
        Self {
            status,
            content_type,
            body: Some(body),
            header: None,
            outcome,
            began: None,
        }
    }

    /// 200 with what was asked for.
    #[expect(clippy::needless_pass_by_value, reason = "reads as `json!({…})`")]
    pub(super) fn json(body: Value) -> Self {
        Self::new(StatusCode::OK, JSON, body.to_string(), Outcome::Ok)
    }

    /// 200 of the introspection endpoint for whatever is no living session (RFC 7662 section 2.2).
    pub(super) fn inactive() -> Self {
        Self {
            outcome: Outcome::Inactive,
            ..Self::json(json!({"active": false}))
        }
    }

    /// 204.
    pub(super) fn done() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: None,
            ..Self::json(Value::Null)
        }
    }

    /// 200 with a page of HTML.
    pub(super) fn page(outcome: Outcome) -> Self {
        Self::new(StatusCode::OK, HTML, PAGE.to_owned(), outcome)
    }

    /// 200 with JSON that breaks off.
    pub(super) fn unreadable() -> Self {
        let broken = r#"{"active":tr"#.to_owned();
        Self::new(StatusCode::OK, JSON, broken, Outcome::Fault("unreadable"))
    }

    /// With another header.
    pub(super) fn with(self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        Self {
            header: Some((name, value.into())),
            ..self
        }
    }

    /// The response, whole.
    pub(super) fn response(self) -> HttpResponse {
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

/// A refusal (RFC 6749 section 5.2).
#[derive(Debug, Clone)]
pub(super) struct No {
    status: u16,
    error: &'static str,
    description: Cow<'static, str>,
    outcome: Outcome,
}

const fn ours(status: u16, error: &'static str, description: &'static str) -> No {
    No {
        status,
        error,
        description: Cow::Borrowed(description),
        outcome: Outcome::Fault("misconfigured"),
    }
}

const fn grant(description: &'static str, outcome: Outcome) -> No {
    No {
        status: 400,
        error: "invalid_grant",
        description: Cow::Borrowed(description),
        outcome,
    }
}

const NO_CLIENT: &str = "Invalid client or Invalid client credentials";

impl No {
    pub(super) const REALM_DISABLED: Self = ours(403, "access_denied", "Realm not enabled");
    pub(super) const HTTPS: Self = ours(403, "invalid_request", "HTTPS required");
    pub(super) const NO_GRANT_TYPE: Self =
        ours(400, "invalid_request", "Missing form parameter: grant_type");
    pub(super) const GRANT_TYPE: Self =
        ours(400, "unsupported_grant_type", "Unsupported grant_type");
    pub(super) const REPEATED: Self = ours(400, "invalid_request", "duplicated parameter");
    pub(super) const UNKNOWN_CLIENT: Self = ours(401, "invalid_client", NO_CLIENT);
    pub(super) const SECRET: Self = ours(401, "unauthorized_client", NO_CLIENT);
    /// The introspection endpoint's own words for a wrong secret.
    pub(super) const INTROSPECTION_SECRET: Self =
        ours(401, "invalid_client", "Client authentication failed.");
    pub(super) const DIRECT_GRANTS: Self = ours(
        400,
        "unauthorized_client",
        "Client not allowed for direct access grants",
    );
    pub(super) const SERVICE_ACCOUNT: Self = ours(
        401,
        "unauthorized_client",
        "Client not enabled to retrieve service account",
    );
    /// The right answer to whoever only wants to know whether a login would do.
    pub(super) const NO_USERNAME: Self = No {
        status: 401,
        error: "invalid_request",
        description: Cow::Borrowed("Missing parameter: username"),
        outcome: Outcome::Ok,
    };
    pub(super) const NO_REFRESH_TOKEN: Self = ours(400, "invalid_request", "No refresh token");
    pub(super) const NO_TOKEN: Self = ours(400, "invalid_request", "Token not provided.");
    pub(super) const TOKEN_TYPE: Self = ours(400, "invalid_request", "Unsupported token type.");
    pub(super) const GARBAGE: Self = grant("Invalid refresh token", Outcome::Inactive);
    pub(super) const OTHER_CLIENT: Self = grant(
        "Invalid refresh token. Token client and authorized client don't match",
        Outcome::Inactive,
    );
    pub(super) const EXPIRED: Self = grant("Token is not active", Outcome::Inactive);
    pub(super) const SESSION_OVER: Self = grant("Session not active", Outcome::Inactive);
    pub(super) const USER_DISABLED: Self = grant("User disabled", Outcome::Inactive);

    /// Why a user does not get in. A lock looks like a wrong password.
    pub(super) const fn login(refusal: Refusal) -> Self {
        let description = match refusal {
            Refusal::InvalidCredentials | Refusal::Locked => "Invalid user credentials",
            Refusal::Disabled => "Account disabled",
            Refusal::Incomplete => "Account is not fully set up",
        };
        grant(description, Outcome::Refused(refusal))
    }

    /// A token that was made under another name of the server, which is `expected`.
    pub(super) fn issuer(expected: &str) -> Self {
        let description = format!("Invalid token issuer. Expected '{expected}'");
        Self {
            description: Cow::Owned(description),
            ..ours(400, "invalid_grant", "")
        }
    }

    /// That it failed.
    pub(super) const fn failed() -> Self {
        No {
            status: 500,
            error: "unknown_error",
            description: Cow::Borrowed("For more on this error consult the server log."),
            outcome: Outcome::Fault("failed"),
        }
    }

    /// That it has too much to do.
    pub(super) const fn throttled() -> Self {
        No {
            status: 429,
            error: "temporarily_unavailable",
            description: Cow::Borrowed("Too many requests"),
            outcome: Outcome::Fault("throttled"),
        }
    }
}

impl From<No> for Told {
    fn from(no: No) -> Self {
        let body = json!({"error": no.error, "error_description": no.description});
        let status = StatusCode::from_u16(no.status).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(status, JSON, body.to_string(), no.outcome)
    }
}

/// An error of the server's frame, which has no description.
pub(super) fn framed(status: StatusCode, error: &str) -> HttpResponse {
    HttpResponse::build(status).json(json!({ "error": error }))
}
