//! Permissions from the names in a response of the IAM.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::scope::{Permission, Permissions};

/// How many invalid names are logged, so that an administrator of roles cannot fill the memory.
const LOGGED_NAMES_MAX: usize = 256;

/// The maximum length of a name in the log, in characters.
const LOGGED_LENGTH: usize = 64;

/// Reads permissions, and logs the names that are not valid in a scope.
#[derive(Debug)]
pub(crate) struct PermissionNames {
    adapter: &'static str,
    logged: Mutex<HashSet<String>>,
}

impl PermissionNames {
    /// Of the adapter with this name.
    pub(crate) fn new(adapter: &'static str) -> Self {
        Self {
            adapter,
            logged: Mutex::default(),
        }
    }

    /// The permissions with these names, without those that are not valid in a scope.
    pub(crate) fn read<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Permissions {
        names
            .into_iter()
            .filter_map(|name| {
                let permission = Permission::parse(name);
                if permission.is_err() {
                    self.drop_name(name);
                }
                permission.ok()
            })
            .collect()
    }

    fn drop_name(&self, name: &str) {
        let name: String = name.chars().take(LOGGED_LENGTH).collect();
        let mut logged = self.logged.lock();
        if logged.len() < LOGGED_NAMES_MAX && logged.insert(name.clone()) {
            tracing::warn!(
                iam.adapter = self.adapter,
                permission = name,
                "permission dropped: its name is not valid in a scope (RFC 6749 section 3.3)"
            );
        }
    }
}
