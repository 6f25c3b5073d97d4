//! From Keycloak's roles to permissions.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::wire::Introspected;
use crate::scope::{Permission, Permissions};

/// How many names are remembered as told: whoever can make roles must not fill our memory.
const TOLD_MAX: usize = 256;

/// How much of a name is told, in characters.
const TOLD_LENGTH: usize = 64;

/// Which roles are permissions, and what became of those that cannot be.
#[derive(Debug)]
pub(super) struct RoleReader {
    client: Option<String>,
    default_roles: String,
    dropped: AtomicU64,
    told: Mutex<HashSet<String>>,
}

impl RoleReader {
    pub(super) fn new(realm: &str, client: Option<String>) -> Self {
        Self {
            client,
            default_roles: format!("default-roles-{}", realm.to_lowercase()),
            dropped: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// The permissions that an answer names; without those roles that every user has for
    /// Keycloak's own purposes, and those that could not stand in a scope.
    pub(super) fn permissions(&self, answer: &Introspected) -> Permissions {
        let roles = match &self.client {
            None => Some(&answer.realm_access),
            Some(client) => answer.resource_access.get(client),
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

    /// How many names were dropped since the start, repeats included.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn is_built_in(&self, name: &str) -> bool {
        name == self.default_roles || matches!(name, "offline_access" | "uma_authorization")
    }

    fn drop_name(&self, name: &str) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        let name: String = name.chars().take(TOLD_LENGTH).collect();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX && told.insert(name.clone()) {
            tracing::warn!(
                iam.adapter = super::NAME,
                role = ?name,
                "a role cannot stand in a scope (RFC 6749 section 3.3) and is left out"
            );
        }
    }
}
