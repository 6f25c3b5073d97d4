//! What an answer other than a success means. Judged by the JSON member `error`: the statuses
//! differ from release to release, and a proxy sends the same ones.

use reqwest::StatusCode;

use super::wire::{self, ErrorAnswer};
use crate::client::Answer;
use crate::error::{IamError, Misconfiguration, Refusal};

/// What Keycloak holds against a call.
#[derive(Debug)]
pub(super) enum No {
    /// Against the user or their session (`invalid_grant`), with its description.
    Grant(String),
    /// Anything else, which is not theirs to mend.
    Fault(IamError),
}

impl No {
    /// For calls that put no grant to the test, where the word makes no sense.
    pub(super) fn into_fault(self) -> IamError {
        match self {
            Self::Grant(_) => IamError::Unreadable("unexpected invalid_grant".to_owned()),
            Self::Fault(fault) => fault,
        }
    }
}

impl From<IamError> for No {
    fn from(fault: IamError) -> Self {
        Self::Fault(fault)
    }
}

/// Reads an answer that is not the expected success.
pub(super) fn of(answer: &Answer) -> No {
    let status = answer.status.as_u16();
    No::Fault(match answer.status {
        StatusCode::TOO_MANY_REQUESTS => IamError::Throttled {
            retry_after: answer.retry_after,
        },
        status if status.is_server_error() => {
            IamError::Failed(format!("status {}", status.as_u16()))
        }
        StatusCode::NOT_FOUND => {
            IamError::misconfigured(Misconfiguration::Realm, "status 404: look at url and realm")
        }
        _ => match wire::object::<ErrorAnswer>(&answer.body) {
            Err(wire::Unreadable) => IamError::Unreadable(format!("status {status}")),
            Ok(said) => {
                let description = said.error_description.unwrap_or_default();
                if said.error == "invalid_grant" && matches!(status, 400 | 401) {
                    return grant(description);
                }
                fault(status, &said.error, &description)
            }
        },
    })
}

/// A token of another issuer is refused as if it were no good, while its session lives on.
fn grant(description: String) -> No {
    if description.starts_with("Invalid token issuer") {
        No::Fault(IamError::misconfigured(
            Misconfiguration::Issuer,
            "the session was made under another host name of the IAM",
        ))
    } else {
        No::Grant(description)
    }
}

fn fault(status: u16, error: &str, description: &str) -> IamError {
    let Some(code) = presentable(error) else {
        return IamError::Unreadable(format!("status {status}"));
    };
    let (what, hint) = match (status, code, description) {
        (401, "unauthorized_client", _)
        // The introspection endpoint's words for a wrong secret, since 26.7 …
        | (_, "invalid_client", "Client authentication failed.") => {
            (Misconfiguration::ClientSecret, "look at client_secret")
        }
        // … and before, when an unknown client got the same.
        (401, "invalid_request", "Authentication failed.") => (
            Misconfiguration::ClientSecret,
            "look at client_secret and client_id",
        ),
        (_, "invalid_client", _) => (
            Misconfiguration::UnknownClient,
            "unknown, disabled, or not a confidential client: look at client_id",
        ),
        (_, "unauthorized_client", text) if text.contains("direct access grants") => (
            Misconfiguration::DirectGrants,
            "switch on direct access grants for the client",
        ),
        (_, "unsupported_grant_type", _) => (
            Misconfiguration::DirectGrants,
            "the server knows no such grant",
        ),
        (403, "access_denied", _) => (Misconfiguration::Realm, "the realm is switched off"),
        (_, "invalid_request", "HTTPS required") => {
            (Misconfiguration::Tls, "the realm demands https")
        }
        (403, "invalid_request", _) => (
            Misconfiguration::Other,
            "not allowed for this client, which has to be a confidential one",
        ),
        (_, "invalid_request" | "unauthorized_client" | "invalid_scope", _) => {
            (Misconfiguration::Other, "the request is not accepted")
        }
        _ => return IamError::Unreadable(format!("status {status}, error {code}")),
    };
    IamError::misconfigured(what, format!("status {status}, error {code}: {hint}"))
}

/// The server's word, where it is a code and not a text.
fn presentable(error: &str) -> Option<&str> {
    let code = (1..=40).contains(&error.len())
        && error.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
    code.then_some(error)
}

/// Why a password grant failed. A description that is not known stays with the user's side,
/// since `invalid_grant` is said of nothing else.
pub(super) fn of_login(description: &str) -> Refusal {
    match description {
        "Account disabled" => Refusal::Disabled,
        "Account is not fully set up" => Refusal::Incomplete,
        _ => Refusal::InvalidCredentials,
    }
}
