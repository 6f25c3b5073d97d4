//! The meaning of Keycloak's error responses beyond RFC 6749.

use crate::error::{Misconfiguration, Refusal};
use crate::oauth2_client::{ClientAuthMethod, ClientAuthPreset, Dialect, ErrorResponse};

pub(super) const DIALECT: Dialect = Dialect {
    client_auth: ClientAuthPreset::STANDARD,
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
            (401, "invalid_request", "Authentication failed.") => (
                Misconfiguration::ClientSecret,
                "check client_secret and client_id",
            ),
            (401, "unauthorized_client", _) | (_, "invalid_client", _) => client_fault(response),
            (_, "unauthorized_client", text) if text.contains("direct access grants") => (
                Misconfiguration::PasswordLogin,
                "enable direct access grants for the client",
            ),
            (_, "unauthorized_client", _) => {
                (Misconfiguration::Other, "the request is not accepted")
            }
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

/// Why Keycloak does not accept the client. The descriptions are those of 26.7; other versions have the same
/// codes.
fn client_fault(response: &ErrorResponse<'_>) -> (Misconfiguration, &'static str) {
    let method = response.client_auth_method;
    let hint = match response.description {
        "Invalid token audience" => "the audience of the assertion must be the issuer of the realm",
        "Token is not active" => "the assertion has expired or is not valid yet: check the clocks",
        "Token reuse detected" | "Token jti claim is required" => {
            "the identity provider accepts each assertion once; one for Kubernetes accepts it several times"
        }
        "Unable to load public key" => "the client has no key with private_key_id",
        text if text.contains("Signature on JWT token") => {
            "the signature of the assertion is not that of the client's key: check private_key_file"
        }
        text if text.starts_with("Parameter client_assertion") => {
            "the client authenticates by an assertion: check client_auth_method"
        }
        // At the introspection endpoint, older versions also send it for an unknown client.
        "Client authentication failed." => other_authentication(method),
        _ if response.code == "unauthorized_client" => other_authentication(method),
        _ => return unknown_client(method),
    };
    (Misconfiguration::ClientSecret, hint)
}

/// The client exists and authenticates by a secret.
const fn other_authentication(method: ClientAuthMethod) -> &'static str {
    match method {
        ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost => {
            "check client_secret"
        }
        ClientAuthMethod::PrivateKeyJwt
        | ClientAuthMethod::ClientAssertion
        | ClientAuthMethod::TlsClientAuth => {
            "the client authenticates by a secret: check client_auth_method"
        }
    }
}

/// Keycloak has one response to everything by which it cannot find a client that matches.
const fn unknown_client(method: ClientAuthMethod) -> (Misconfiguration, &'static str) {
    match method {
        ClientAuthMethod::ClientSecretBasic
        | ClientAuthMethod::ClientSecretPost
        | ClientAuthMethod::PrivateKeyJwt => (
            Misconfiguration::UnknownClient,
            "unknown, disabled, or not a confidential client: check client_id",
        ),
        ClientAuthMethod::ClientAssertion => (
            Misconfiguration::ClientSecret,
            "an unknown or disabled client, no enabled identity provider with the issuer of the assertion, \
             another subject than that of the client, or a signature that is not valid: check client_id and \
             client_assertion_file",
        ),
        ClientAuthMethod::TlsClientAuth => (
            Misconfiguration::ClientSecret,
            "an unknown or disabled client, another subject than that of the client, or no certificate \
             received, as behind a proxy that ends TLS: check client_id and client_certificate_file",
        ),
    }
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
