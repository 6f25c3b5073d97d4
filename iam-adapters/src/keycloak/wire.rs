//! What Keycloak says, member for member. Answers are read straight into these types: a generic
//! JSON tree would keep the last of two equal members, and take `"true"` along as a string.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The bytes are not a JSON object with the members that are needed.
#[derive(Debug)]
pub(super) struct Unreadable;

/// Reads a JSON object; an array, which serde would take for one, is none.
pub(super) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    // Of members that nobody reads, serde would not look whether they are text.
    let text = std::str::from_utf8(body).map_err(|_| Unreadable)?;
    if text.trim_ascii_start().starts_with('{') {
        serde_json::from_str(text).map_err(|_| Unreadable)
    } else {
        Err(Unreadable)
    }
}

/// `/.well-known/openid-configuration` (RFC 8414 section 2).
#[derive(Deserialize)]
pub(super) struct Discovery {
    pub(super) issuer: String,
}

/// 200 of a grant (RFC 6749 section 5.1).
#[derive(Deserialize)]
pub(super) struct Grant {
    /// Never used; but an answer without one is not that of a token endpoint.
    #[serde(rename = "access_token")]
    _access_token: SecretString,
    /// Missing where the client is set not to use refresh tokens.
    #[serde(default)]
    pub(super) refresh_token: Option<SecretString>,
    /// In seconds; 0 or missing: without end.
    #[serde(default)]
    pub(super) refresh_expires_in: u64,
    /// Keycloak's own: the id of the user session.
    #[serde(default)]
    pub(super) session_state: Option<String>,
}

/// 200 of the introspection endpoint (RFC 7662 section 2.2), of which Keycloak's own members name
/// the roles.
#[derive(Deserialize)]
pub(super) struct Introspected {
    pub(super) active: bool,
    #[serde(default)]
    pub(super) sub: Option<String>,
    #[serde(default)]
    pub(super) sid: Option<String>,
    #[serde(default)]
    pub(super) azp: Option<String>,
    #[serde(default)]
    pub(super) client_id: Option<String>,
    #[serde(default)]
    pub(super) realm_access: Roles,
    #[serde(default)]
    pub(super) resource_access: HashMap<String, Roles>,
}

impl Introspected {
    /// Whether the answer is about a token of this client: every member that names the client
    /// names this one, and one of them is there.
    pub(super) fn is_of_client(&self, client_id: &str) -> bool {
        let mut named = self.azp.iter().chain(&self.client_id).peekable();
        named.peek().is_some() && named.all(|name| name == client_id)
    }
}

/// The roles of a realm or of a client.
#[derive(Deserialize, Default)]
pub(super) struct Roles {
    #[serde(default)]
    pub(super) roles: Vec<String>,
}

/// Any answer that is no success (RFC 6749 section 5.2).
#[derive(Deserialize)]
pub(super) struct ErrorAnswer {
    pub(super) error: String,
    #[serde(default)]
    pub(super) error_description: Option<String>,
}

/// What a refresh token says of itself, **with nobody having verified it**: Keycloak signs it with
/// a key that it keeps. Trustworthy only as far as the way on which the token came, which is
/// Keycloak's own answer or our seal.
#[derive(Deserialize)]
pub(super) struct UnverifiedRefreshToken {
    pub(super) sub: String,
    pub(super) sid: String,
    pub(super) azp: String,
}

impl UnverifiedRefreshToken {
    pub(super) fn read(token: &SecretString) -> Result<Self, Unreadable> {
        let payload = token.expose_secret().split('.').nth(1).ok_or(Unreadable)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| Unreadable)?;
        object(&payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_json_object_of_text() {
        let active = |body: &[u8]| object::<Introspected>(body).map(|answer| answer.active);
        assert!(matches!(
            active(br#" {"active":true,"x":"\u00e9"} "#),
            Ok(true)
        ));
        for bad in [
            b"".as_slice(),
            b"null",
            b"[true]",
            b"{\"active\":\"true\"}",
            b"{\"active\":1}",
            b"{\"active\":null}",
            b"{\"active\":true,\"active\":false}",
            b"{\"active\":true,\"x\":\"\xe9\"}",
            b"{\"active\":true}{}",
            b"\xef\xbb\xbf{\"active\":true}",
        ] {
            assert!(active(bad).is_err(), "{bad:?}");
        }
    }
}
