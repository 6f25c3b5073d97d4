//! Sets of scope names. Each user has one name that no other user has, so that responses of
//! different users differ.

use std::fmt;

use iam_adapters::{Permission, Permissions};
use serde::{Deserialize, Serialize};
use test_support::suite::permissions;

/// The number of users.
pub(super) const USERS: usize = 3;

/// The names that an administrator assigns and removes, then one name for each user.
const NAMES: [&str; SHARED + USERS] = [
    "urn:shop:orders:order:read",
    "urn:shop:orders:order:write",
    "urn:shop:catalog:item:read",
    "urn:shop:people:0:mark",
    "urn:shop:people:1:mark",
    "urn:shop:people:2:mark",
];
const SHARED: usize = 3;

/// A set of the names.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Names(u8);

impl Names {
    pub(super) const ALL: Self = Self((1 << NAMES.len()) - 1);

    /// The names that the bits select.
    pub(super) const fn from_bits(bits: u8) -> Self {
        Self(bits).and(Self::ALL)
    }

    /// The permissions of a user who has the shared names of this set.
    pub(super) const fn held_by(self, user: usize) -> Self {
        Self(self.0 & ((1 << SHARED) - 1) | 1 << (SHARED + user))
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Parses a scope; `None` if a name is unknown or occurs twice.
    pub(super) fn parse(scope: &str) -> Option<Self> {
        let mut set = Self(0);
        for name in scope.split_terminator(' ') {
            let bit = 1 << NAMES.iter().position(|known| *known == name)?;
            if set.0 & bit != 0 {
                return None;
            }
            set.0 |= bit;
        }
        Some(set)
    }

    /// The permissions that the IAM reported.
    pub(super) fn reported(permissions: &Permissions) -> Self {
        let names: Vec<_> = permissions.iter().map(Permission::as_str).collect();
        Self::parse(&names.join(" ")).expect("names from here")
    }

    pub(super) fn scope(self) -> String {
        self.list().join(" ")
    }

    pub(super) fn permissions(self) -> Permissions {
        permissions(&self.list())
    }

    fn list(self) -> Vec<&'static str> {
        let chosen = NAMES.iter().enumerate();
        let chosen = chosen.filter(|(index, _)| self.0 >> index & 1 == 1);
        chosen.map(|(_, name)| *name).collect()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.scope())
    }
}
