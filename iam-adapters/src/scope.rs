//! Scopes and permissions: what a client asks for, and what a user may hold.

use std::borrow::Borrow;
use std::fmt;

use thiserror::Error;

/// The most names that one request may ask for.
pub const SCOPE_NAMES_MAX: usize = 64;

/// The longest scope string accepted, in bytes.
pub const SCOPE_BYTES_MAX: usize = 2048;

/// RFC 6749 section 3.3: `scope-token = 1*( %x21 / %x23-5B / %x5D-7E )`.
fn is_scope_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E))
}

/// The scope that a client asks for: names joined by single spaces (RFC 6749 section 3.3), at most
/// [`SCOPE_NAMES_MAX`] of them in [`SCOPE_BYTES_MAX`] bytes. May be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope<'a>(&'a str);

impl<'a> Scope<'a> {
    /// The scope that asks for nothing.
    pub const EMPTY: Self = Self("");

    /// Reads a scope string; the empty string is the empty scope.
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] where the grammar or a bound is broken.
    pub fn parse(text: &'a str) -> Result<Self, InvalidScope> {
        if text.is_empty() {
            return Ok(Self::EMPTY);
        }
        if text.len() > SCOPE_BYTES_MAX {
            return Err(InvalidScope::TooLong);
        }
        if text.bytes().filter(|byte| *byte == b' ').count() >= SCOPE_NAMES_MAX {
            return Err(InvalidScope::TooManyNames);
        }
        if text.split(' ').all(is_scope_token) {
            Ok(Self(text))
        } else {
            Err(InvalidScope::Grammar)
        }
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The names asked for, in order.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        self.0.split(' ').filter(|name| !name.is_empty())
    }

    /// What is granted: the names asked for that are among the permissions, in the order asked
    /// for, each once (RFC 6749 section 3.3: "partially ignore").
    #[must_use]
    pub fn granted(self, permissions: &Permissions) -> String {
        let mut granted = String::with_capacity(self.0.len());
        for name in self.names() {
            if permissions.contains(name) && !Scope(&granted).names().any(|seen| seen == name) {
                if !granted.is_empty() {
                    granted.push(' ');
                }
                granted.push_str(name);
            }
        }
        granted
    }
}

/// Why a text cannot be a scope, to be read after what holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidScope {
    /// Not names of the characters that RFC 6749 section 3.3 allows, joined by single spaces.
    #[error("must be scope names with one space between them (RFC 6749 section 3.3)")]
    Grammar,
    /// More than [`SCOPE_NAMES_MAX`] names.
    #[error("has more than {SCOPE_NAMES_MAX} names")]
    TooManyNames,
    /// More than [`SCOPE_BYTES_MAX`] bytes.
    #[error("is longer than {SCOPE_BYTES_MAX} bytes")]
    TooLong,
}

/// A scope name that a user may hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Permission(Box<str>);

impl Permission {
    /// Reads a scope name.
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] where the name could not stand in a scope string.
    pub fn parse(name: &str) -> Result<Self, InvalidScope> {
        if name.len() > SCOPE_BYTES_MAX {
            return Err(InvalidScope::TooLong);
        }
        if is_scope_token(name) {
            Ok(Self(name.into()))
        } else {
            Err(InvalidScope::Grammar)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Permission {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All that a user may hold: sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions(Box<[Permission]>);

impl Permissions {
    /// Whether the name is among them: the same bytes, upper and lower case told apart.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0
            .binary_search_by(|held| held.as_str().cmp(name))
            .is_ok()
    }

    /// The permissions in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Permission> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that they take up on the heap, for a cache that counts bytes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.0
            .iter()
            .map(|held| size_of::<Permission>() + held.0.len())
            .sum()
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        let mut held: Vec<_> = permissions.into_iter().collect();
        held.sort_unstable();
        held.dedup();
        Self(held.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn permissions(names: &[&str]) -> Permissions {
        names
            .iter()
            .map(|name| Permission::parse(name).expect(name))
            .collect()
    }

    #[test]
    fn names_are_joined_by_single_spaces_and_nothing_else() {
        for text in [
            " ", " a", "a ", "a  b", "a\tb", "a\nb", "a\0", "\"", "\\", "é", "\u{7f}", "a b ",
        ] {
            assert_eq!(Scope::parse(text), Err(InvalidScope::Grammar), "{text:?}");
        }
        for text in ["", "!", "a b", "urn:shop:orders:order:read", "#[]~"] {
            assert!(Scope::parse(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn names_and_bytes_are_bounded() {
        let many = |count| vec!["a"; count].join(" ");
        assert!(Scope::parse(&many(SCOPE_NAMES_MAX)).is_ok());
        assert_eq!(
            Scope::parse(&many(SCOPE_NAMES_MAX + 1)),
            Err(InvalidScope::TooManyNames)
        );
        assert!(Scope::parse(&"a".repeat(SCOPE_BYTES_MAX)).is_ok());
        assert_eq!(
            Scope::parse(&"a".repeat(SCOPE_BYTES_MAX + 1)),
            Err(InvalidScope::TooLong)
        );
    }

    #[test]
    fn granted_keeps_the_order_asked_for_and_drops_repeats_and_strangers() {
        let held = permissions(&["a", "b", "c"]);
        let asked = Scope::parse("c x a c A b a").expect("grammar");
        assert_eq!(asked.granted(&held), "c a b");
        assert_eq!(Scope::EMPTY.granted(&held), "");
        assert_eq!(asked.granted(&Permissions::default()), "");
    }

    #[test]
    fn a_permission_that_could_not_stand_in_a_scope_is_refused() {
        for name in ["", "a b", "a\"", "ü", "a\\"] {
            assert_eq!(
                Permission::parse(name),
                Err(InvalidScope::Grammar),
                "{name:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn granted_is_the_intersection_in_the_order_asked_for(
            asked in proptest::collection::vec("[a-e]{1,2}", 0..20),
            held in proptest::collection::btree_set("[a-e]{1,2}", 0..20),
        ) {
            let text = asked.join(" ");
            let permissions = held.iter().filter_map(|name| Permission::parse(name).ok()).collect();
            let mut seen = BTreeSet::new();
            let model: Vec<_> = asked
                .iter()
                .filter(|name| held.contains(*name) && seen.insert(*name))
                .cloned()
                .collect();
            let granted = Scope::parse(&text).expect("grammar").granted(&permissions);
            prop_assert_eq!(granted, model.join(" "));
        }

        #[test]
        fn any_text_is_read_or_refused_by_the_grammar(text in "\\PC{0,40}|[ -~]{0,40}|.{0,20}") {
            let legal = text.is_empty()
                || text.split(' ').all(|name| {
                    !name.is_empty()
                        && name.chars().all(|c| ('!'..='~').contains(&c) && c != '"' && c != '\\')
                });
            prop_assert_eq!(Scope::parse(&text).is_ok(), legal);
        }
    }
}
