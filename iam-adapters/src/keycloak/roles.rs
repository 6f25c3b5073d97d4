//! Maps Keycloak's roles to permissions.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::wire::Introspected;
use crate::scope::{Permission, Permissions};

/// How many invalid names are logged, so that an administrator of roles cannot fill the memory.
const LOGGED_NAMES_MAX: usize = 256;

/// The maximum length of a name in the log, in characters.
const LOGGED_LENGTH: usize = 64;

/// Selects the roles that are permissions, and counts the roles whose names are not valid in a scope.
#[derive(Debug)]
pub(super) struct RoleReader {
    client: Option<String>,
    default_roles: String,
    dropped: AtomicU64,
    logged: Mutex<HashSet<String>>,
}

impl RoleReader {
    pub(super) fn new(realm: &str, client: Option<String>) -> Self {
        Self {
            client,
            default_roles: format!("default-roles-{}", realm.to_lowercase()),
            dropped: AtomicU64::new(0),
            logged: Mutex::default(),
        }
    }

    /// The permissions in a response, without the roles that every user has for Keycloak's own
    /// purposes, and without names that are not valid in a scope.
    pub(super) fn permissions(&self, response: &Introspected) -> Permissions {
        let roles = match &self.client {
            None => Some(&response.realm_access),
            Some(client) => response.resource_access.get(client),
        };
        roles
            .into_iter()
            .flat_map(|roles| &roles.roles)
            .filter(|name| !self.is_built_in(name))
            .filter_map(|name| {
                let permission = Permission::parse(name);
                if permission.is_err() {
                    self.drop_name(name);
                }
                permission.ok()
            })
            .collect()
    }

    /// How many names were dropped since the start; repeats count.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn is_built_in(&self, name: &str) -> bool {
        name == self.default_roles || matches!(name, "offline_access" | "uma_authorization")
    }

    fn drop_name(&self, name: &str) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        let name: String = name.chars().take(LOGGED_LENGTH).collect();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_NAMES_MAX && logged.insert(name.clone()) {
            tracing::warn!(
                iam.adapter = super::NAME,
                role = ?name,
                "role dropped: its name is not valid in a scope (RFC 6749 section 3.3)"
            );
        }
    }
}
