//! The meaning of Keycloak's error responses beyond RFC 6749.

use crate::error::{Misconfiguration, Refusal};
use crate::oauth2_client::{Dialect, ErrorResponse};

pub(super) const DIALECT: Dialect = Dialect {
    not_found: (Misconfiguration::Tenant, "check url and realm"),
    introspection_hint: "check client_id and the host name of the IAM",
    refused_error: None,
    refused_status: None,
    explain,
};

fn explain(response: &ErrorResponse<'_>) -> Option<(Misconfiguration, &'static str)> {
    Some(
        match (response.status, response.code, response.description) {
        // A token of another issuer. Its session is still active.
        (400 | 401, "invalid_grant", text) if text.starts_with("Invalid token issuer") => (
            Misconfiguration::Issuer,
            "the session began under another host name of the IAM",
        ),
        (401, "unauthorized_client", _)
        // At the introspection endpoint. Older versions send the next one, also for an unknown client.
        | (_, "invalid_client", "Client authentication failed.") => {
            (Misconfiguration::ClientSecret, "check client_secret")
        }
        (401, "invalid_request", "Authentication failed.") => (
            Misconfiguration::ClientSecret,
            "check client_secret and client_id",
        ),
        (_, "invalid_client", _) => (
            Misconfiguration::UnknownClient,
            "unknown, disabled, or not a confidential client: check client_id",
        ),
        (_, "unauthorized_client", text) if text.contains("direct access grants") => (
            Misconfiguration::PasswordLogin,
            "enable direct access grants for the client",
        ),
        (_, "unauthorized_client", _) => (Misconfiguration::Other, "the request is not accepted"),
        (403, "access_denied", _) => (Misconfiguration::Tenant, "the realm is disabled"),
        (_, "invalid_request", "HTTPS required") => {
            (Misconfiguration::Tls, "the realm requires https")
        }
        (403, "invalid_request", _) => (
            Misconfiguration::Other,
            "not allowed for this client, which must be a confidential one",
        ),
        _ => return None,
    },
    )
}

/// Why a password grant failed. An unknown description counts as wrong credentials, which is the
/// meaning of `invalid_grant`.
pub(super) fn login_refusal(description: &str) -> Refusal {
    match description {
        "Account disabled" => Refusal::Disabled,
        "Account is not fully set up" => Refusal::Incomplete,
        _ => Refusal::InvalidCredentials,
    }
}
