//! What Keycloak says, member for member.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::json::object;

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
    /// None: this is not such a token.
    pub(super) fn read(token: &SecretString) -> Option<Self> {
        let payload = token.expose_secret().split('.').nth(1)?;
        object(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }
}
