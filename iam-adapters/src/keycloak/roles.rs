//! Selects the roles that are permissions.

use super::wire::IntrospectedToken;
use crate::oauth2_client::PermissionNames;
use crate::scope::Permissions;

/// Reads the roles of one client, or of the realm.
#[derive(Debug)]
pub(super) struct RoleReader {
    client: Option<String>,
    default_roles: String,
    names: PermissionNames,
}

impl RoleReader {
    pub(super) fn new(realm: &str, client: Option<String>) -> Self {
        Self {
            client,
            default_roles: format!("default-roles-{}", realm.to_lowercase()),
            names: PermissionNames::new(|role| {
                tracing::warn!(
                    iam.adapter = super::NAME,
                    role,
                    "role dropped: its name is not valid in a scope (RFC 6749 section 3.3)"
                );
            }),
        }
    }

    /// The permissions in a response, without the roles that every user has for Keycloak's own
    /// purposes, and without names that are not valid in a scope.
    pub(super) fn permissions(&self, response: &IntrospectedToken) -> Permissions {
        let roles = match &self.client {
            None => Some(&response.realm_access),
            Some(client) => response.resource_access.get(client),
        };
        let names = roles.into_iter().flat_map(|roles| &roles.roles);
        let names = names.map(String::as_str);
        self.names
            .read(names.filter(|name| !self.is_built_in(name)))
    }

    fn is_built_in(&self, name: &str) -> bool {
        name == self.default_roles || matches!(name, "offline_access" | "uma_authorization")
    }
}
