//! The meaning of an error response. It depends on the JSON member `error` (RFC 6749 section 5.2),
//! because statuses differ between servers and versions, and proxies send the same statuses.

use reqwest::StatusCode;
use serde::Deserialize;

use super::{ClientAuthMethod, ClientAuthPreset};
use crate::client::Response;
use crate::error::{IamError, Misconfiguration};
use crate::json;

/// The error code of a server that cannot revoke this kind of token.
pub(crate) const UNSUPPORTED_TOKEN_TYPE: &str = "unsupported_token_type";

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// The server refuses the user or the session (`invalid_grant`), with this description.
    InvalidGrant(String),
    /// The server responded to a password grant with [`Dialect::refused_error`] or [`Dialect::refused_status`]: it
    /// refuses the user, or the client.
    Unproven,
    /// The server responded with a 4xx of unknown meaning. From a password grant, it may refuse the user.
    Unclassified {
        /// What it is unless it is a refusal.
        fault: IamError,
        /// The status.
        status: u16,
        /// The error code; `None`: none, or free text.
        code: Option<String>,
    },
    /// Any other failure; not caused by the user.
    Fault(IamError),
}

impl Rejected {
    /// For calls without a grant, for which `invalid_grant` is unexpected.
    pub(crate) fn into_fault(self) -> IamError {
        match self {
            Self::InvalidGrant(_) => IamError::Unreadable("unexpected invalid_grant".into()),
            Self::Unproven => IamError::Unreadable("unexpected refusal".into()),
            Self::Unclassified { fault, .. } | Self::Fault(fault) => fault,
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
pub(crate) struct ErrorResponse<'a> {
    /// The status.
    pub(crate) status: u16,
    /// `error`, a code of letters, `_` and `-`; empty if the body is empty.
    pub(crate) code: &'a str,
    /// `error_description`; empty if missing.
    pub(crate) description: &'a str,
    /// How the client authenticated.
    pub(crate) client_auth_method: ClientAuthMethod,
}

/// The meaning of a server's error responses beyond the standard.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    /// What differs in the authentication of clients.
    pub(crate) client_auth: ClientAuthPreset,
    /// The meaning of a 404, and the settings to check.
    pub(crate) not_found: (Misconfiguration, &'static str),
    /// The settings to check if introspection reports active sessions as inactive.
    pub(crate) introspection_hint: &'static str,
    /// An error code by which a password grant refuses the user, in addition to `invalid_grant`.
    pub(crate) refused_error: Option<String>,
    /// A response without a known code by which a password grant refuses the user.
    pub(crate) refused_status: Option<RefusedStatus>,
    /// The meaning of a response, and the settings to check; `None`: the standard applies.
    pub(crate) explain: fn(&ErrorResponse<'_>) -> Option<(Misconfiguration, &'static str)>,
}

/// A status without a known error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusedStatus {
    /// The status.
    pub(crate) status: u16,
    /// Whether the body must be empty, so that the page of a proxy is not that response.
    pub(crate) without_body: bool,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: String,
    error_description: Option<String>,
}

/// The error code of a response (RFC 6749 section 5.2).
pub(crate) fn error_code(response: &Response) -> Option<String> {
    let body: ErrorBody = json::object(&response.body).ok()?;
    Some(as_code(&body.error)?.to_owned())
}

/// The meaning of a response that is not the expected success, to a client that authenticates by this method.
pub(super) fn meaning(
    response: &Response,
    dialect: &Dialect,
    client_auth_method: ClientAuthMethod,
) -> Rejected {
    if let Some(fault) = response.fault() {
        return fault.into();
    }
    let status = response.status.as_u16();
    let body: Option<ErrorBody> = json::object(&response.body).ok();
    let code = body.as_ref().and_then(|body| as_code(&body.error));
    let is_refusal = code.is_some_and(|code| dialect.is_refusing_code(code))
        && response.status.is_client_error();
    if response.status == StatusCode::NOT_FOUND && !is_refusal {
        let (what, hint) = dialect.not_found;
        return IamError::misconfigured(what, format!("status 404: {hint}")).into();
    }
    let is_refused_status = dialect.refused_status.is_some_and(|refused| {
        refused.status == status && (response.body.is_empty() || !refused.without_body)
    });
    if code.is_none() && is_refused_status {
        return Rejected::Unproven;
    }
    let description = body
        .as_ref()
        .and_then(|body| body.error_description.as_deref());
    let description = description.unwrap_or_default();
    let explained = match code {
        None if !response.body.is_empty() => None,
        code => (dialect.explain)(&ErrorResponse {
            status,
            code: code.unwrap_or_default(),
            description,
            client_auth_method,
        }),
    };
    if explained.is_none() && is_refusal {
        return match code {
            Some("invalid_grant") => Rejected::InvalidGrant(description.to_owned()),
            // The server may have the same code for a client that it refuses.
            _ => Rejected::Unproven,
        };
    }
    let named = match code {
        None => format!("status {status}"),
        Some(code) => format!("status {status}, error {code}"),
    };
    let fault = match explained.or_else(|| standard(code?, client_auth_method)) {
        Some((what, hint)) => IamError::misconfigured(what, format!("{named}: {hint}")),
        None if is_refused_status => return Rejected::Unproven,
        None => IamError::Unreadable(named.into()),
    };
    let is_known = match &fault {
        // A code that says what the server refuses. A status alone does not.
        IamError::Misconfigured { what, .. } => *what != Misconfiguration::Other && code.is_some(),
        _ => false,
    };
    if is_known || !response.status.is_client_error() {
        return fault.into();
    }
    Rejected::Unclassified {
        fault,
        status,
        code: code.map(str::to_owned),
    }
}

impl Dialect {
    fn is_refusing_code(&self, code: &str) -> bool {
        code == "invalid_grant" || self.refused_error.as_deref() == Some(code)
    }
}

/// RFC 6749 section 5.2 and RFC 7009 section 2.2.1.
fn standard(code: &str, method: ClientAuthMethod) -> Option<(Misconfiguration, &'static str)> {
    Some(match code {
        "invalid_client" => (Misconfiguration::ClientSecret, method.hint()),
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

/// The server's error code, if it is a code and not free text: 1 to 40 letters, `_` and `-`.
pub(crate) fn as_code(error: &str) -> Option<&str> {
    let is_code = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-');
    ((1..=40).contains(&error.len()) && error.bytes().all(is_code)).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Dialect = Dialect {
        client_auth: ClientAuthPreset::STANDARD,
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

    fn read(response: &Response, dialect: &Dialect) -> Rejected {
        meaning(response, dialect, ClientAuthMethod::ClientSecretBasic)
    }

    fn what(status: u16, body: &str) -> Option<Misconfiguration> {
        match read(&response(status, body), &PLAIN).into_fault() {
            IamError::Misconfigured { what, .. } => Some(what),
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
    fn only_invalid_grant_of_a_client_error_is_no_fault() {
        let body = r#"{"error":"invalid_grant","error_description":"wrong"}"#;
        for (status, refused) in [
            (400, true),
            (401, true),
            (403, true),
            (404, true),
            (422, true),
            (429, false),
            (201, false),
            (502, false),
        ] {
            let meant = read(&response(status, body), &PLAIN);
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
            let meant = read(&response(400, unreadable), &PLAIN);
            let is_unreadable = matches!(
                &meant,
                Rejected::Unclassified {
                    fault: IamError::Unreadable(_),
                    ..
                }
            );
            assert!(is_unreadable, "{unreadable}: {meant:?}");
        }
    }

    #[test]
    fn code_has_letters_of_both_cases_and_hyphens() {
        let dialect = Dialect {
            refused_error: Some("Bad-Credentials".to_owned()),
            ..PLAIN
        };
        for (code, refused) in [
            ("Bad-Credentials", true),
            ("bad-credentials", false),
            ("Bad Credentials", false),
        ] {
            let body = format!(r#"{{"error":"{code}"}}"#);
            let meant = read(&response(400, &body), &dialect);
            assert_eq!(meant == Rejected::Unproven, refused, "{code}: {meant:?}");
        }
    }

    #[test]
    fn refused_status_refuses_unless_the_code_has_another_meaning() {
        let known = r#"{"error":"invalid_client"}"#;
        let refusing = r#"{"error":"invalid_grant"}"#;
        for (body, any_body, without_body) in [
            ("", true, true),
            ("<html>", true, false),
            (r#"{"message":"wrong"}"#, true, false),
            (r#"{"error":"Bad-Credentials"}"#, true, false),
            (r#"{"error":"Some text"}"#, true, false),
            (known, false, false),
            (refusing, false, false),
        ] {
            for (only_without_body, refused) in [(false, any_body), (true, without_body)] {
                let dialect = Dialect {
                    refused_status: Some(RefusedStatus {
                        status: 403,
                        without_body: only_without_body,
                    }),
                    ..PLAIN
                };
                let meant = read(&response(403, body), &dialect);
                assert_eq!(meant == Rejected::Unproven, refused, "{body}: {meant:?}");
                let other = read(&response(400, body), &dialect);
                assert!(other != Rejected::Unproven, "{body}");
            }
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
        let meant = read(&response(400, body), &dialect);
        let expected = IamError::misconfigured(
            Misconfiguration::Issuer,
            "status 400, error invalid_grant: check",
        );
        assert_eq!(meant, Rejected::Fault(expected));
    }
}
