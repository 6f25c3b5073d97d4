//! Keycloak's response bodies.

use std::collections::HashMap;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

/// The 200 of a grant (RFC 6749 section 5.1).
#[derive(Deserialize)]
pub(super) struct TokenGrant {
    /// Not used, but required: a response without it is not that of a token endpoint.
    #[serde(rename = "access_token")]
    _access_token: SecretString,
    /// Missing if refresh tokens are disabled for the client.
    pub(super) refresh_token: Option<SecretString>,
    /// In seconds; 0 or missing: unlimited.
    #[serde(default)]
    pub(super) refresh_expires_in: u64,
    /// The id of the user session. A member of Keycloak's own.
    pub(super) session_state: Option<String>,
}

/// The 200 of the introspection endpoint (RFC 7662 section 2.2), with Keycloak's own members for the
/// roles.
#[derive(Deserialize)]
pub(super) struct IntrospectedToken {
    pub(super) active: bool,
    pub(super) sub: Option<String>,
    pub(super) sid: Option<String>,
    pub(super) azp: Option<String>,
    pub(super) client_id: Option<String>,
    #[serde(default)]
    pub(super) realm_access: Roles,
    #[serde(default)]
    pub(super) resource_access: HashMap<String, Roles>,
    /// A realm has it if an administrator adds a mapper of group memberships. Keycloak omits an empty list.
    #[serde(default = "empty_list")]
    groups: Value,
}

fn empty_list() -> Value {
    Value::Array(Vec::new())
}

impl IntrospectedToken {
    /// The names of the groups; `None` if the claim is of another mapper.
    pub(super) fn group_names(&self) -> Option<Vec<String>> {
        Vec::deserialize(&self.groups).ok()
    }

    /// Whether the response is about a token of this client: at least one member names a client, and
    /// all of them name this one.
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

/// The claims of a refresh token, **not verified**: Keycloak signs it with a secret key. Trusted only
/// because the token comes from Keycloak's own response or from a sealed session token.
#[derive(Deserialize)]
pub(super) struct UnverifiedRefreshToken {
    pub(super) sub: String,
    pub(super) sid: String,
    pub(super) azp: String,
}
