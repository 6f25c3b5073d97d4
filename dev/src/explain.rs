//! Explains which names of a scope are granted, and why.

use iam_adapters::scope::{SCOPE_BYTES_MAX, SCOPE_NAMES_MAX};
use iam_adapters::{AllowedScopes, Permission, Permissions, Scope};
use serde::Serialize;
use thiserror::Error;

/// The explanation of a requested scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The granted scope; empty if nothing is granted.
    pub granted: String,
    /// Every name in the requested order.
    pub names: Vec<Explained>,
}

/// The explanation of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The name as requested.
    pub name: String,
    /// Whether it is granted.
    pub granted: bool,
    /// The reason.
    pub reason: Reason,
}

/// Why a name is granted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The user has the permission.
    Granted,
    /// The user does not have the permission, which is case-sensitive.
    NotPermitted,
    /// The user has the permission, but the settings do not allow the gateway to grant it.
    NotAllowed,
    /// The user has the permission and the name is repeated: the token contains it once.
    Repeated,
}

/// The first problem of a scope that is too long or violates the grammar of RFC 6749 section 3.3.
/// Names and characters are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScopeFault {
    /// Over [`SCOPE_BYTES_MAX`].
    #[error("the scope has {0} bytes; the maximum is {SCOPE_BYTES_MAX}")]
    TooLong(usize),
    /// Over [`SCOPE_NAMES_MAX`].
    #[error("the scope has {0} names; the maximum is {SCOPE_NAMES_MAX}")]
    TooManyNames(usize),
    /// A leading, trailing or repeated space.
    #[error(
        "name {0} is empty: names are separated by single spaces, without leading or trailing spaces"
    )]
    Empty(usize),
    /// A forbidden character.
    #[error(
        "name {name} has {character:?} as its character {place}: allowed are the visible characters \
         of ASCII without the quote and the backslash"
    )]
    Character {
        /// The number of the name.
        name: usize,
        /// The position in the name.
        place: usize,
        /// The character.
        character: char,
    },
}

/// Explains what a user with these permissions gets of a scope, if the gateway grants at most the `allowed` names.
/// Does not apply the default scope of the gateway to an empty scope.
///
/// # Errors
///
/// [`ScopeFault`] if and only if the exchange answers `invalid_scope`.
pub fn explain(
    scope: &str,
    permissions: &Permissions,
    allowed: Option<&AllowedScopes>,
) -> Result<Explanation, ScopeFault> {
    let requested = Scope::parse(scope).map_err(|_| fault(scope))?;
    let mut names: Vec<Explained> = Vec::new();
    for name in requested.names() {
        let reason = if !permissions.contains(name) {
            Reason::NotPermitted
        } else if allowed.is_some_and(|allowed| !allowed.contains(name)) {
            Reason::NotAllowed
        } else if names.iter().any(|seen| seen.name == name) {
            Reason::Repeated
        } else {
            Reason::Granted
        };
        names.push(Explained {
            name: name.to_owned(),
            granted: matches!(reason, Reason::Granted | Reason::Repeated),
            reason,
        });
    }
    Ok(Explanation {
        granted: requested.granted(permissions, allowed),
        names,
    })
}

/// The problem of an invalid scope.
fn fault(scope: &str) -> ScopeFault {
    let wrong = (1..).zip(scope.split(' ')).find_map(|(number, name)| {
        if name.is_empty() {
            return Some(ScopeFault::Empty(number));
        }
        let refused = |c: char| Permission::parse(c.encode_utf8(&mut [0; 4])).is_err();
        let mut characters = (1..).zip(name.chars());
        let (place, character) = characters.find(|(_, character)| refused(*character))?;
        Some(ScopeFault::Character {
            name: number,
            place,
            character,
        })
    });
    let names = scope.split(' ').count();
    match wrong {
        Some(wrong) => wrong,
        None if names > SCOPE_NAMES_MAX => ScopeFault::TooManyNames(names),
        None => ScopeFault::TooLong(scope.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn permissions(names: &[&str]) -> Permissions {
        let names = names.iter().map(|name| Permission::parse(name));
        names.map(|name| name.expect("a name")).collect()
    }

    #[test]
    fn every_name_has_its_reason_in_the_requested_order() {
        let held = permissions(&["a", "b"]);
        let explanation = explain("b x a b x B", &held, None).expect("the grammar");
        assert_eq!(explanation.granted, "b a");
        let reasons: Vec<_> = explanation
            .names
            .iter()
            .map(|explanation| {
                (
                    explanation.name.as_str(),
                    explanation.granted,
                    explanation.reason,
                )
            })
            .collect();
        assert_eq!(
            reasons,
            [
                ("b", true, Reason::Granted),
                ("x", false, Reason::NotPermitted),
                ("a", true, Reason::Granted),
                ("b", true, Reason::Repeated),
                ("x", false, Reason::NotPermitted),
                ("B", false, Reason::NotPermitted),
            ]
        );
        let json = serde_json::to_value(&explanation.names[1]).expect("JSON");
        assert_eq!(json["reason"], "not_permitted");
    }

    #[test]
    fn invalid_scope_is_reported_with_problem_and_position() {
        for (scope, expected) in [
            (" a", "name 1 is empty: "),
            ("a  b", "name 2 is empty: "),
            ("a b ", "name 3 is empty: "),
            ("a b\\c", "name 2 has '\\\\' as its character 2: "),
            ("a\tb", "name 1 has '\\t' as its character 2: "),
            ("a été", "name 2 has 'é' as its character 1: "),
            (&"a ".repeat(64), "name 65 is empty: "),
            (&format!("{}a", "a ".repeat(64)), "the scope has 65 names"),
            (&"a".repeat(2_049), "the scope has 2049 bytes"),
        ] {
            let explanation = explain(scope, &permissions(&[]), None).expect_err(scope);
            let explanation = explanation.to_string();
            assert!(
                explanation.starts_with(expected),
                "{scope:?} gives {explanation}"
            );
        }
    }

    proptest! {
        #[test]
        fn explanation_agrees_with_the_exchange(
            scope in "([a-c]{1,2} ){0,5}[a-c]{0,2}|[ -~]{0,20}|.{0,20}",
            held in proptest::collection::vec("[a-c]{1,2}", 0..6),
            allowed in proptest::option::of(proptest::collection::vec("[a-c]{1,2}|[a-c]?\\*", 0..3)),
        ) {
            let held: Vec<_> = held.iter().map(String::as_str).collect();
            let permissions = permissions(&held);
            let allowed = allowed.map(|names| AllowedScopes::parse(&names).expect("names"));
            let allowed = allowed.as_ref();
            match (explain(&scope, &permissions, allowed), Scope::parse(&scope)) {
                (Ok(explanation), Ok(requested)) => {
                    prop_assert_eq!(&explanation.granted, &requested.granted(&permissions, allowed));
                    let first = explanation.names.iter().filter(|explanation| explanation.reason == Reason::Granted);
                    let first: Vec<_> = first.map(|explanation| explanation.name.as_str()).collect();
                    prop_assert_eq!(first.join(" "), explanation.granted);
                }
                (explanation, requested) => prop_assert_eq!(explanation.is_ok(), requested.is_ok()),
            }
        }
    }
}
