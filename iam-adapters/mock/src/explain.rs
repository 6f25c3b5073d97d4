//! Why a scope was granted, or was not.

use iam_adapters::scope::{SCOPE_BYTES_MAX, SCOPE_NAMES_MAX};
use iam_adapters::{Permission, Permissions, Scope};
use serde::Serialize;
use thiserror::Error;

/// What becomes of a scope that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The scope of the token; empty where nothing is granted.
    pub granted: String,
    /// Every name, in the order asked for.
    pub names: Vec<Explained>,
}

/// What becomes of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The name as it was asked for.
    pub name: String,
    /// Whether the token has it.
    pub granted: bool,
    /// Why.
    pub reason: Reason,
}

/// Why a token has a name, or has it not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The user may hold it.
    Granted,
    /// The user may not hold it; upper and lower case are told apart.
    NotPermitted,
    /// The user may hold it, and it was asked for before: the token has it once.
    Repeated,
}

/// What is wrong with a scope that is outside the grammar of RFC 6749 section 3.3, or too long.
/// The first thing that was found; names and characters count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScopeFault {
    /// Over [`SCOPE_BYTES_MAX`].
    #[error("the scope has {0} bytes, and at most {SCOPE_BYTES_MAX} are read")]
    TooLong(usize),
    /// Over [`SCOPE_NAMES_MAX`].
    #[error("the scope has {0} names, and at most {SCOPE_NAMES_MAX} are read")]
    TooManyNames(usize),
    /// A blank at the beginning or the end, or one after another.
    #[error("name {0} is empty: names are joined by single blanks, with none before or after")]
    Empty(usize),
    /// A character that no name may have.
    #[error(
        "name {name} has {character:?} as its character {place}: allowed are the visible characters \
         of ASCII without the quote and the backslash"
    )]
    Character {
        /// Which name.
        name: usize,
        /// Which character of it.
        place: usize,
        /// That one.
        character: char,
    },
}

/// Tells what a user with these permissions gets of a scope. The empty scope is explained as such;
/// where the gateway has a default one, that is what such a request asks for.
///
/// # Errors
///
/// [`ScopeFault`], exactly where the exchange answers `invalid_scope`.
pub fn explain(scope: &str, permissions: &Permissions) -> Result<Explanation, ScopeFault> {
    let asked = Scope::parse(scope).map_err(|_| fault(scope))?;
    let mut names: Vec<Explained> = Vec::new();
    for name in asked.names() {
        let reason = if !permissions.contains(name) {
            Reason::NotPermitted
        } else if names.iter().any(|seen| seen.name == name) {
            Reason::Repeated
        } else {
            Reason::Granted
        };
        names.push(Explained {
            name: name.to_owned(),
            granted: reason != Reason::NotPermitted,
            reason,
        });
    }
    Ok(Explanation {
        granted: asked.granted(permissions),
        names,
    })
}

/// What is wrong with a scope that was refused.
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
    fn every_name_has_its_reason_in_the_order_asked_for() {
        let told = explain("b x a b x B", &permissions(&["a", "b"])).expect("the grammar");
        assert_eq!(told.granted, "b a");
        let reasons: Vec<_> = told
            .names
            .iter()
            .map(|told| (told.name.as_str(), told.granted, told.reason))
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
        let json = serde_json::to_value(&told.names[1]).expect("JSON");
        assert_eq!(json["reason"], "not_permitted");
    }

    #[test]
    fn a_scope_outside_the_grammar_is_told_what_is_wrong_and_where() {
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
            let told = explain(scope, &permissions(&[])).expect_err(scope);
            let told = told.to_string();
            assert!(told.starts_with(expected), "{scope:?} gives {told}");
        }
    }

    proptest! {
        #[test]
        fn an_explanation_never_differs_from_what_the_exchange_does(
            scope in "([a-c]{1,2} ){0,5}[a-c]{0,2}|[ -~]{0,20}|.{0,20}",
            held in proptest::collection::vec("[a-c]{1,2}", 0..6),
        ) {
            let held: Vec<_> = held.iter().map(String::as_str).collect();
            let permissions = permissions(&held);
            match (explain(&scope, &permissions), Scope::parse(&scope)) {
                (Ok(told), Ok(asked)) => {
                    prop_assert_eq!(&told.granted, &asked.granted(&permissions));
                    let first = told.names.iter().filter(|told| told.reason == Reason::Granted);
                    let first: Vec<_> = first.map(|told| told.name.as_str()).collect();
                    prop_assert_eq!(first.join(" "), told.granted);
                }
                (told, asked) => prop_assert_eq!(told.is_ok(), asked.is_ok()),
            }
        }
    }
}
