//! From permissions to Keycloak's roles, those among them that every user has.

use iam_adapters::{Permission, Permissions};
use serde_json::{Value, json};

use super::realm::Portrait;

/// What every user may do with their own account.
const ACCOUNT: [&str; 3] = ["manage-account", "manage-account-links", "view-profile"];

/// Adds `realm_access` and `resource_access` to what is said of a session.
pub(super) fn add(claims: &mut Value, portrait: &Portrait, realm: &str, permissions: &Permissions) {
    let Some(claims) = claims.as_object_mut() else {
        return;
    };
    let default_roles = format!("default-roles-{}", realm.to_lowercase());
    let permissions: Vec<_> = permissions.iter().map(Permission::as_str).collect();
    let mut of_realm = vec!["offline_access", &default_roles, "uma_authorization"];
    let mut of_clients = json!({"account": {"roles": ACCOUNT}});
    match (&portrait.permissions_client, of_clients.as_object_mut()) {
        (None, _) => of_realm.extend(permissions),
        // A client of which a user has no role is not named.
        (Some(client), Some(clients)) if !permissions.is_empty() => {
            clients.insert(client.clone(), json!({"roles": permissions}));
        }
        (Some(_), _) => {}
    }
    claims.insert("realm_access".to_owned(), json!({"roles": of_realm}));
    claims.insert("resource_access".to_owned(), of_clients);
}
