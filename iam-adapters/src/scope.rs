//! Scopes that a client requests, and permissions that a user has.

use std::borrow::Borrow;

use thiserror::Error;

/// The maximum number of names in one request.
pub const SCOPE_NAMES_MAX: usize = 64;

/// The maximum length of a scope string in bytes.
pub const SCOPE_BYTES_MAX: usize = 2048;

/// RFC 6749 section 3.3: `scope-token = 1*( %x21 / %x23-5B / %x5D-7E )`.
fn is_scope_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E))
}

/// The scope that a client requests: names joined by single spaces (RFC 6749 section 3.3), at most
/// [`SCOPE_NAMES_MAX`] of them in [`SCOPE_BYTES_MAX`] bytes. May be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope<'a>(&'a str);

impl<'a> Scope<'a> {
    /// The empty scope.
    pub const EMPTY: Self = Self("");

    /// Reads a scope string; the empty string is the empty scope.
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] if it violates the grammar or a limit.
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

    /// Whether it has no names.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The names in their order.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        self.0.split(' ').filter(|name| !name.is_empty())
    }

    /// The granted scope: the requested names that are among the permissions and allowed, in the
    /// requested order, each once (RFC 6749 section 3.3: "partially ignore").
    #[must_use]
    pub fn granted(self, permissions: &Permissions, allowed: Option<&AllowedScopes>) -> String {
        let is_granted = |name| {
            permissions.contains(name) && allowed.is_none_or(|allowed| allowed.contains(name))
        };
        let mut granted = String::with_capacity(self.0.len());
        for name in self.names() {
            if is_granted(name) && !Scope(&granted).names().any(|seen| seen == name) {
                if !granted.is_empty() {
                    granted.push(' ');
                }
                granted.push_str(name);
            }
        }
        granted
    }
}

/// Why a text is not a valid scope. The message follows the name of the member or setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidScope {
    /// Not names of the characters in RFC 6749 section 3.3, joined by single spaces.
    #[error("must be scope names with one space between them (RFC 6749 section 3.3)")]
    Grammar,
    /// More than [`SCOPE_NAMES_MAX`] names.
    #[error("has more than {SCOPE_NAMES_MAX} names")]
    TooManyNames,
    /// More than [`SCOPE_BYTES_MAX`] bytes.
    #[error("is longer than {SCOPE_BYTES_MAX} bytes")]
    TooLong,
}

/// A scope name that a user can have.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Permission(Box<str>);

impl Permission {
    /// Reads a scope name.
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] if the name is not valid in a scope string.
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

/// A scope name, or the beginning of scope names followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopePattern(Permission);

impl ScopePattern {
    /// Reads a name or a beginning.
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] if it is not valid in a scope string.
    pub fn parse(text: &str) -> Result<Self, InvalidScope> {
        Permission::parse(text).map(Self)
    }

    /// Whether this is the name, or its beginning. Case-sensitive.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let pattern = self.0.as_str();
        let beginning = pattern.strip_suffix('*');
        beginning.map_or(name == pattern, |beginning| name.starts_with(beginning))
    }
}

/// The scope names that a session can be granted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedScopes(Box<[ScopePattern]>);

impl AllowedScopes {
    /// Reads the names and beginnings.
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] if one of them is not valid in a scope string.
    pub fn parse(names: &[impl AsRef<str>]) -> Result<Self, InvalidScope> {
        let names = names.iter().map(|name| ScopePattern::parse(name.as_ref()));
        names.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a scope name is among them, or begins with one of them. Case-sensitive.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|allowed| allowed.matches(name))
    }
}

/// All permissions of a user: sorted, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions(Box<[Permission]>);

impl Permissions {
    /// Whether the name is among them. Case-sensitive.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0
            .binary_search_by(|permission| permission.as_str().cmp(name))
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

    /// Their size on the heap in bytes, for the weight of a cache entry.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.0
            .iter()
            .map(|permission| size_of::<Permission>() + permission.0.len())
            .sum()
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        let mut sorted: Vec<_> = permissions.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self(sorted.into())
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
    fn scope_names_are_separated_by_single_spaces_only() {
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
    fn number_of_names_and_bytes_is_bounded() {
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
    fn granted_scope_keeps_the_requested_order_without_duplicates_and_unknown_names() {
        let held = permissions(&["a", "b", "c"]);
        let requested = Scope::parse("c x a c A b a").expect("grammar");
        assert_eq!(requested.granted(&held, None), "c a b");
        assert_eq!(Scope::EMPTY.granted(&held, None), "");
        assert_eq!(requested.granted(&Permissions::default(), None), "");
    }

    #[test]
    fn allowed_scopes_are_names_and_beginnings_followed_by_an_asterisk() {
        let held = permissions(&["urn:a:b", "urn:a:c", "urn:b", "read", "reader", "*"]);
        let requested = Scope::parse("urn:a:b urn:a:c urn:b read reader *").expect("grammar");
        for (allowed, granted) in [
            (&["read"][..], "read"),
            (&["read*"], "read reader"),
            (&["urn:a:*", "reader"], "urn:a:b urn:a:c reader"),
            (&["urn:a:*:d", "Read", "urn:a"], ""),
            (&["*"], "urn:a:b urn:a:c urn:b read reader *"),
            (&["write"], ""),
            (&[], ""),
        ] {
            let allowed = AllowedScopes::parse(allowed).expect("names");
            assert_eq!(requested.granted(&held, Some(&allowed)), granted);
        }
        for invalid in ["", "a b", "\"", "é"] {
            assert!(AllowedScopes::parse(&[invalid]).is_err(), "{invalid}");
        }
    }

    #[test]
    fn permission_that_is_no_scope_name_is_refused() {
        for name in ["", "a b", "a\"", "ü", "a\\"] {
            assert_eq!(
                Permission::parse(name),
                Err(InvalidScope::Grammar),
                "{name:?}"
            );
        }
    }

    #[test]
    fn permission_may_be_as_long_as_a_scope() {
        assert!(Permission::parse(&"a".repeat(SCOPE_BYTES_MAX)).is_ok());
        assert_eq!(
            Permission::parse(&"a".repeat(SCOPE_BYTES_MAX + 1)),
            Err(InvalidScope::TooLong)
        );
    }

    #[test]
    fn permission_is_found_and_displayed_by_its_name() {
        let held = BTreeSet::from([Permission::parse("b").unwrap()]);
        assert!(held.contains("b") && !held.contains("xyzzy"));
        assert_eq!(Permission::parse("b").unwrap().to_string(), "b");
    }

    #[test]
    fn permissions_are_listed_once_in_ascending_order() {
        let held = permissions(&["b", "a", "c", "a"]);
        let names: Vec<_> = held.iter().map(Permission::as_str).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(held.len(), 3);
    }

    #[test]
    fn size_on_the_heap_counts_each_name_and_its_pointer() {
        let pointer = size_of::<Box<str>>();
        assert_eq!(permissions(&[]).heap_size(), 0);
        assert_eq!(permissions(&["abc"]).heap_size(), pointer + 3);
        assert_eq!(permissions(&["a", "bc"]).heap_size(), 2 * pointer + 3);
    }

    proptest! {
        #[test]
        fn granted_scope_is_the_intersection_in_the_requested_order(
            requested in proptest::collection::vec("[a-e]{1,2}", 0..20),
            held in proptest::collection::btree_set("[a-e]{1,2}", 0..20),
        ) {
            let text = requested.join(" ");
            let permissions = held.iter().filter_map(|name| Permission::parse(name).ok()).collect();
            let mut seen = BTreeSet::new();
            let model: Vec<_> = requested
                .iter()
                .filter(|name| held.contains(*name) && seen.insert(*name))
                .cloned()
                .collect();
            let granted = Scope::parse(&text).expect("grammar").granted(&permissions, None);
            prop_assert_eq!(granted, model.join(" "));
        }

        #[test]
        fn text_is_accepted_exactly_if_it_matches_the_grammar(text in "\\PC{0,40}|[ -~]{0,40}|.{0,20}") {
            let is_valid = text.is_empty()
                || text.split(' ').all(|name| {
                    !name.is_empty()
                        && name.chars().all(|c| ('!'..='~').contains(&c) && c != '"' && c != '\\')
                });
            prop_assert_eq!(Scope::parse(&text).is_ok(), is_valid);
        }
    }
}
