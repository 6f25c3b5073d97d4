//! Sets of scope names. Everybody has one name to themselves, so that nobody's answer can pass for
//! another's.

use std::fmt;

use iam_adapters::{Permission, Permissions};
use serde::{Deserialize, Serialize};
use test_support::suite::permissions;

/// How many users there are.
pub(super) const USERS: usize = 3;

/// Those that an administrator gives and takes, then the mark of each user.
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

    /// Whichever names the bits stand for.
    pub(super) const fn from_bits(bits: u8) -> Self {
        Self(bits).and(Self::ALL)
    }

    /// What a user holds to whom the shared ones of these were given.
    pub(super) const fn held_by(self, user: usize) -> Self {
        Self(self.0 & ((1 << SHARED) - 1) | 1 << (SHARED + user))
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Reads a scope; none where a name is strange or stands there twice.
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

    /// What the IAM said.
    pub(super) fn said(permissions: &Permissions) -> Self {
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
