//! Distinguished names of LDAP (RFC 4514) and patterns of them.

use std::iter::{self, Peekable};
use std::str::{self, Chars};

use super::pattern::Pattern;

/// A distinguished name: its relative names from the leaf to the root, each with its types and values.
///
/// Types and values are compared without case, and spaces at the ends and repeated ones in values do
/// not count (`caseIgnoreMatch`, RFC 4517 section 4.2.11). The parts of a multi-valued relative name
/// have no order (RFC 4512 section 2.3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DistinguishedName(Vec<Vec<(String, String)>>);

impl DistinguishedName {
    /// Reads a name; `None` if it is not one. Every relative name needs a type and a value. Values in
    /// quotation marks (RFC 2253) and in BER (`#…`) are not supported.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let plain = |character: Option<char>| character.unwrap_or('*');
        relative_names(text, |value| value.into_iter().map(plain).collect()).map(Self)
    }
}

/// A pattern of distinguished names, in which `*` stands for any part of one value.
#[derive(Debug, Clone)]
pub(super) struct NamePattern(Vec<Vec<(String, Pattern)>>);

impl NamePattern {
    /// Reads a pattern; `None` if it is no distinguished name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        relative_names(text, |value| Pattern::new(value.into_iter(), None)).map(Self)
    }

    /// Whether the whole name matches: as many relative names, each of which matches.
    pub(super) fn matches(&self, name: &DistinguishedName) -> bool {
        self.0.len() == name.0.len()
            && self.0.iter().zip(&name.0).all(|(patterns, parts)| {
                let mut pairs = patterns.iter().zip(parts);
                patterns.len() == parts.len()
                    && pairs.all(|((kind, pattern), (other, value))| {
                        kind == other && pattern.matches(value)
                    })
            })
    }
}

/// The characters of a value, and `None` for each `*` that is not escaped.
type Value = Vec<Option<char>>;

/// Reads relative names, with the types and values of each in one order.
fn relative_names<V>(text: &str, read: impl Fn(Value) -> V) -> Option<Vec<Vec<(String, V)>>> {
    let mut characters = text.chars().peekable();
    let mut names = vec![Vec::new()];
    loop {
        let kind: String = iter::from_fn(|| characters.next_if(|c| *c != '=')).collect();
        let kind = kind.trim().to_ascii_lowercase();
        let valid = kind.starts_with(|c: char| c.is_ascii_alphanumeric())
            && kind
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
        if !valid {
            return None;
        }
        characters.next()?;
        let value = value(&mut characters)?;
        names.last_mut()?.push((kind, value));
        match characters.next() {
            None => break,
            Some('+') => {}
            Some(_) => names.push(Vec::new()),
        }
    }
    let names = names.into_iter().map(|mut name| {
        name.sort_unstable();
        let parts = name.into_iter();
        parts.map(|(kind, value)| (kind, read(value))).collect()
    });
    Some(names.collect())
}

/// Reads a value up to an unescaped comma or plus, which stays.
fn value(characters: &mut Peekable<Chars<'_>>) -> Option<Value> {
    let mut value = Value::new();
    while let Some(character) = characters.next_if(|c| !matches!(c, ',' | '+')) {
        match character {
            '\\' => value.extend(escaped(characters)?.chars().map(Some)),
            '"' | ';' | '<' | '>' | '\0' => return None,
            '#' if value.is_empty() => return None,
            '*' => value.push(None),
            plain => value.push(Some(plain)),
        }
    }
    // An escaped space at an end does not count either: caseIgnoreMatch ignores it.
    let mut prepared = Value::new();
    for character in value {
        match character {
            None => prepared.push(None),
            Some(' ') if prepared.last().is_none_or(|last| *last == Some(' ')) => {}
            Some(character) => prepared.extend(character.to_lowercase().map(Some)),
        }
    }
    prepared.pop_if(|last| *last == Some(' '));
    (!prepared.is_empty()).then_some(prepared)
}

/// Reads what follows a backslash: a special character, or bytes of UTF-8 in hexadecimal.
fn escaped(characters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let first = characters.next()?;
        let Some(high) = first.to_digit(16) else {
            return bytes.is_empty().then(|| first.to_string());
        };
        let low = characters.next()?.to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
        if let Ok(text) = str::from_utf8(&bytes) {
            return Some(text.to_owned());
        }
        // A character of several bytes, each with its own backslash.
        if bytes.len() >= 4 || characters.next()? != '\\' {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let name = DistinguishedName::parse(name).expect(name);
        NamePattern::parse(pattern).expect(pattern).matches(&name)
    }

    #[test]
    fn case_and_insignificant_spaces_do_not_count() {
        let name = "cn=Order Readers,ou=groups,dc=example,dc=test";
        for same in [
            "CN=order readers,OU=Groups,DC=EXAMPLE,DC=TEST",
            "cn = Order  Readers , ou=groups, dc=example ,dc=test",
            r"cn=\4frder Readers,ou=groups,dc=example,dc=test",
            r"cn=Order\20Readers\ ,ou=groups,dc=example,dc=test",
        ] {
            assert!(matches(name, same), "{same}");
            assert!(matches(same, name), "{same}");
        }
    }

    #[test]
    fn relative_names_count_in_their_order_and_number() {
        let name = "cn=readers,ou=groups,dc=example,dc=test";
        for other in [
            "cn=readers,ou=groups,dc=example",
            "cn=readers,ou=groups,dc=example,dc=test,dc=test",
            "ou=groups,cn=readers,dc=example,dc=test",
            "ou=readers,ou=groups,dc=example,dc=test",
            "cn=reader,ou=groups,dc=example,dc=test",
            "cn=readerss,ou=groups,dc=example,dc=test",
            "cn=OrderReaders,ou=groups,dc=example,dc=test",
            "uid=a+cn=readers,ou=groups,dc=example,dc=test",
        ] {
            assert!(!matches(name, other), "{other}");
        }
    }

    #[test]
    fn parts_of_a_multi_valued_name_have_no_order() {
        assert!(matches("uid=1+cn=a,dc=test", "CN=A + UID=1,dc=test"));
        assert!(!matches("uid=1+cn=a,dc=test", "uid=1,cn=a,dc=test"));
    }

    #[test]
    fn escaped_characters_belong_to_their_value() {
        assert!(matches(r"cn=a\,b,dc=test", r"cn=a\2cb,dc=test"));
        assert!(matches("cn=a=b,dc=test", r"cn=a\3db,dc=test"));
        assert!(!matches(r"cn=a\,ou=b,dc=test", "cn=a,ou=b,dc=test"));
        assert!(matches(r"cn=Müller,dc=test", r"cn=m\c3\bcller,dc=test"));
        assert!(matches(
            r"cn=a\=b\+c\#\\,dc=test",
            r"cn=a\3db\2bc\23\5c,dc=test"
        ));
    }

    #[test]
    fn wildcard_matches_within_one_value() {
        let pattern = "cn=team-*,ou=groups,dc=test";
        for name in [
            "cn=team-a,ou=groups,dc=test",
            "cn=Team-,ou=groups,dc=test",
            "cn=team-a/b,ou=groups,dc=test",
        ] {
            assert!(matches(pattern, name), "{name}");
        }
        // An escaped comma is a character of the value.
        assert!(matches(pattern, r"cn=team-a\,ou=x,ou=groups,dc=test"));
        for name in [
            "cn=team-a,ou=x,ou=groups,dc=test",
            "cn=team,ou=groups,dc=test",
            "ou=team-a,ou=groups,dc=test",
        ] {
            assert!(!matches(pattern, name), "{name}");
        }
        assert!(!matches(r"cn=team-\*,dc=test", "cn=team-a,dc=test"));
        assert!(matches(r"cn=team-\*,dc=test", r"cn=team-\2a,dc=test"));
        // A wildcard in the name of a group is a character.
        assert!(!matches("cn=team-a,dc=test", "cn=team-*,dc=test"));
    }

    #[test]
    fn text_that_is_not_a_name_is_refused() {
        for text in [
            "",
            "a",
            "cn",
            "=a",
            "cn=",
            "cn= ",
            "cn=a,",
            ",cn=a",
            "cn=a,,dc=b",
            "cn=a+",
            "c n=a",
            "cn=\"a\"",
            "cn=#0401",
            r"cn=a\",
            r"cn=a\4",
            r"cn=\c3",
            r"cn=\c3\28",
            "cn=a;dc=b",
            "cn=a\0",
        ] {
            assert_eq!(DistinguishedName::parse(text), None, "{text:?}");
        }
    }
}
