//! The meaning of an error response. It depends on the JSON member `error` (RFC 6749 section 5.2),
//! because statuses differ between servers and versions, and proxies send the same statuses.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::client::Response;
use crate::error::{IamError, Misconfiguration};
use crate::json;

/// The error code of a server that cannot revoke this kind of token.
pub const UNSUPPORTED_TOKEN_TYPE: &str = "unsupported_token_type";

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The server refuses the user or the session (`invalid_grant`), with this description.
    InvalidGrant(String),
    /// The server answered with [`Dialect::refused_status`] without an error code: it refuses the user,
    /// or the client.
    RefusedStatus,
    /// Any other failure; not caused by the user.
    Fault(IamError),
}

impl Rejected {
    /// For calls without a grant, for which `invalid_grant` is unexpected.
    #[must_use]
    pub fn into_fault(self) -> IamError {
        match self {
            Self::InvalidGrant(_) => IamError::Unreadable("unexpected invalid_grant".to_owned()),
            Self::RefusedStatus => IamError::Unreadable("unexpected refusal".to_owned()),
            Self::Fault(fault) => fault,
        }
    }
}

impl From<IamError> for Rejected {
    fn from(fault: IamError) -> Self {
        Self::Fault(fault)
    }
}

/// An error response (RFC 6749 section 5.2).
#[derive(Debug, Clone, Copy)]
pub struct ErrorResponse<'a> {
    /// The status.
    pub status: u16,
    /// `error`, a code of lower-case letters and `_`; empty if the body is empty.
    pub code: &'a str,
    /// `error_description`; empty if missing.
    pub description: &'a str,
}

/// The meaning of a server's error responses beyond the standard.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// The meaning of a 404, and the settings to check.
    pub not_found: (Misconfiguration, &'static str),
    /// The settings to check if introspection reports active sessions as inactive.
    pub introspection_hint: &'static str,
    /// An error code that refuses the user, in addition to `invalid_grant`.
    pub refused_error: Option<String>,
    /// A status that refuses the user, with an empty body or such a code, in addition to 400 and 401
    /// with such a code.
    pub refused_status: Option<u16>,
    /// The meaning of a response, and the settings to check; `None`: the standard applies.
    pub explain: fn(&ErrorResponse<'_>) -> Option<(Misconfiguration, &'static str)>,
}

#[derive(Deserialize)]
struct Body {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

/// The error code of a response (RFC 6749 section 5.2).
#[must_use]
pub fn error_code(response: &Response) -> Option<String> {
    let body: Body = json::object(&response.body).ok()?;
    Some(as_code(&body.error)?.to_owned())
}

/// The meaning of a response that is not the expected success.
pub(super) fn meaning(response: &Response, dialect: &Dialect) -> Rejected {
    let status = response.status.as_u16();
    if let Some(fault) = response.fault() {
        return fault.into();
    }
    Rejected::Fault(match response.status {
        StatusCode::NOT_FOUND => {
            let (what, hint) = dialect.not_found;
            IamError::misconfigured(what, format!("status 404: {hint}"))
        }
        _ if response.body.is_empty() => return of_code(status, "", String::new(), dialect),
        _ => match json::object::<Body>(&response.body) {
            Err(_) => IamError::Unreadable(format!("status {status}")),
            Ok(body) => {
                let description = body.error_description.unwrap_or_default();
                match as_code(&body.error) {
                    Some(code) => return of_code(status, code, description, dialect),
                    None => IamError::Unreadable(format!("status {status}")),
                }
            }
        },
    })
}

/// The meaning of a code, which is empty if the body is.
fn of_code(status: u16, code: &str, description: String, dialect: &Dialect) -> Rejected {
    let response = ErrorResponse {
        status,
        code,
        description: &description,
    };
    if code.is_empty() && dialect.refused_status == Some(status) {
        return Rejected::RefusedStatus;
    }
    let explained = (dialect.explain)(&response);
    if explained.is_none() && dialect.refuses(status, code) {
        return Rejected::InvalidGrant(description);
    }
    let named = match code {
        "" => format!("status {status}"),
        code => format!("status {status}, error {code}"),
    };
    let fault = match explained.or_else(|| standard(code)) {
        Some((what, hint)) => IamError::misconfigured(what, format!("{named}: {hint}")),
        None => IamError::Unreadable(named),
    };
    fault.into()
}

impl Dialect {
    fn refuses(&self, status: u16, code: &str) -> bool {
        let is_refusing_code =
            code == "invalid_grant" || self.refused_error.as_deref() == Some(code);
        let is_refusing_status = matches!(status, 400 | 401) || self.refused_status == Some(status);
        is_refusing_code && is_refusing_status
    }
}

/// RFC 6749 section 5.2 and RFC 7009 section 2.2.1.
fn standard(code: &str) -> Option<(Misconfiguration, &'static str)> {
    Some(match code {
        "invalid_client" => (
            Misconfiguration::ClientSecret,
            "check the client id and its secret",
        ),
        "unauthorized_client" => (
            Misconfiguration::PasswordLogin,
            "the client may not use this grant",
        ),
        "unsupported_grant_type" => (
            Misconfiguration::PasswordLogin,
            "the server does not support this grant",
        ),
        "invalid_request" | "invalid_scope" => {
            (Misconfiguration::Other, "the request is not accepted")
        }
        UNSUPPORTED_TOKEN_TYPE => (
            Misconfiguration::Other,
            "the server does not revoke this kind of token",
        ),
        _ => return None,
    })
}

/// The server's error code, if it is a code and not free text.
fn as_code(error: &str) -> Option<&str> {
    let code = (1..=40).contains(&error.len())
        && error.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
    code.then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Dialect = Dialect {
        not_found: (Misconfiguration::Other, "check the endpoints"),
        introspection_hint: "check the client",
        refused_error: None,
        refused_status: None,
        explain: |_| None,
    };

    fn response(status: u16, body: &str) -> Response {
        Response {
            status: StatusCode::from_u16(status).expect("a status"),
            retry_after: None,
            body: body.as_bytes().to_vec(),
        }
    }

    fn what(status: u16, body: &str) -> Option<Misconfiguration> {
        match meaning(&response(status, body), &PLAIN) {
            Rejected::Fault(IamError::Misconfigured { what, .. }) => Some(what),
            _ => None,
        }
    }

    #[test]
    fn standard_error_codes_apply_to_every_dialect() {
        for (status, code, expected) in [
            (401, "invalid_client", Misconfiguration::ClientSecret),
            (400, "unauthorized_client", Misconfiguration::PasswordLogin),
            (
                400,
                "unsupported_grant_type",
                Misconfiguration::PasswordLogin,
            ),
            (400, "invalid_request", Misconfiguration::Other),
            (400, "invalid_scope", Misconfiguration::Other),
        ] {
            let body = format!(r#"{{"error":"{code}"}}"#);
            assert_eq!(what(status, &body), Some(expected), "{code}");
        }
        assert_eq!(what(404, ""), Some(Misconfiguration::Other));
    }

    #[test]
    fn only_invalid_grant_with_400_or_401_is_no_fault() {
        let body = r#"{"error":"invalid_grant","error_description":"wrong"}"#;
        for (status, refused) in [(400, true), (401, true), (403, false), (502, false)] {
            let meant = meaning(&response(status, body), &PLAIN);
            let is_refusal = meant == Rejected::InvalidGrant("wrong".to_owned());
            assert_eq!(is_refusal, refused, "{status}: {meant:?}");
        }
        for unreadable in [
            "",
            "[]",
            "<html>",
            r#"{"error":"Some text"}"#,
            r#"{"error":"x"}"#,
        ] {
            let meant = meaning(&response(400, unreadable), &PLAIN);
            let is_unreadable = matches!(&meant, Rejected::Fault(IamError::Unreadable(_)));
            assert!(is_unreadable, "{unreadable}: {meant:?}");
        }
    }

    #[test]
    fn dialect_takes_precedence_over_the_standard() {
        let dialect = Dialect {
            explain: |response| {
                (response.description == "expired").then_some((Misconfiguration::Issuer, "check"))
            },
            ..PLAIN
        };
        let body = r#"{"error":"invalid_grant","error_description":"expired"}"#;
        let meant = meaning(&response(400, body), &dialect);
        let expected = IamError::misconfigured(
            Misconfiguration::Issuer,
            "status 400, error invalid_grant: check",
        );
        assert_eq!(meant, Rejected::Fault(expected));
    }
}
