//! Distinguished names of LDAP (RFC 4514) and patterns of them.

use super::group_table::{InvalidGroup, Pattern};

/// A distinguished name: its relative names from the leaf to the root.
///
/// Types and values are compared without case, and spaces at the ends and repeated ones in values do
/// not count (`caseIgnoreMatch`, RFC 4517 section 4.2.11). The parts of a multi-valued relative name
/// have no order (RFC 4512 section 2.3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DistinguishedName(Vec<RelativeName>);

/// The types and values of one relative name, sorted.
type RelativeName = Vec<(String, Value)>;

/// A value, each of its characters with whether it was escaped: `\*` is a character, and `*` a
/// wildcard in a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Value(Vec<(char, bool)>);

impl DistinguishedName {
    /// Reads a name; `None` if it is not one. Every relative name needs a type and a value. Values in
    /// quotation marks (RFC 2253) and in BER (`#…`) are not supported.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut characters = text.chars().peekable();
        let mut names = vec![RelativeName::new()];
        loop {
            let kind: String = std::iter::from_fn(|| characters.next_if(|c| *c != '=')).collect();
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
                Some(_) => names.push(RelativeName::new()),
            }
        }
        for name in &mut names {
            name.sort_unstable();
        }
        Some(Self(names))
    }
}

/// Reads a value up to an unescaped comma or plus, which stays.
fn value(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Value> {
    let mut value: Vec<(char, bool)> = Vec::new();
    while let Some(character) = characters.next_if(|c| !matches!(c, ',' | '+')) {
        match character {
            '\\' => escaped(characters, &mut value)?,
            '"' | ';' | '<' | '>' | '\0' => return None,
            '#' if value.is_empty() => return None,
            plain => value.push((plain, false)),
        }
    }
    let is_space = |(character, escaped): &(char, bool)| *character == ' ' && !escaped;
    while value.last().is_some_and(is_space) {
        value.pop();
    }
    let leading = value.iter().take_while(|part| is_space(part)).count();
    value.drain(..leading);
    // After this, an escaped space at an end does not count either: caseIgnoreMatch ignores it.
    let mut prepared: Vec<(char, bool)> = Vec::new();
    for (character, escaped) in value {
        let is_repeated = character == ' ' && prepared.last().is_none_or(|(last, _)| *last == ' ');
        if !is_repeated {
            prepared.extend(character.to_lowercase().map(|lower| (lower, escaped)));
        }
    }
    if prepared.last().is_some_and(|(last, _)| *last == ' ') {
        prepared.pop();
    }
    (!prepared.is_empty()).then_some(Value(prepared))
}

/// Reads what follows a backslash: a special character, or bytes of UTF-8 in hexadecimal.
fn escaped(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    value: &mut Vec<(char, bool)>,
) -> Option<()> {
    let first = characters.next()?;
    let Some(high) = first.to_digit(16) else {
        value.push((first, true));
        return Some(());
    };
    let mut bytes = Vec::new();
    let mut high = high;
    loop {
        let low = characters.next()?.to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            value.extend(text.chars().map(|character| (character, true)));
            return Some(());
        }
        // A character of several bytes, each with its own backslash.
        if bytes.len() >= 4 || characters.next()? != '\\' {
            return None;
        }
        high = characters.next()?.to_digit(16)?;
    }
}

/// A pattern of distinguished names, in which `*` stands for any part of one value.
#[derive(Debug, Clone)]
pub(super) struct NamePattern(Vec<Vec<(String, Pattern)>>);

impl NamePattern {
    /// Reads a pattern.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidGroup> {
        let name = DistinguishedName::parse(text).ok_or(InvalidGroup::DistinguishedName)?;
        let pattern = |(kind, value): (String, Value)| {
            let parts = value.0.into_iter();
            let characters = parts.map(|(c, escaped)| (c != '*' || escaped).then_some(c));
            (kind, Pattern::new(characters, None))
        };
        let names = name.0.into_iter();
        Ok(Self(
            names
                .map(|name| name.into_iter().map(pattern).collect())
                .collect(),
        ))
    }

    /// Whether the whole name matches: as many relative names, each of which matches.
    pub(super) fn matches(&self, name: &DistinguishedName) -> bool {
        self.0.len() == name.0.len()
            && self.0.iter().zip(&name.0).all(|(patterns, parts)| {
                patterns.len() == parts.len()
                    && patterns
                        .iter()
                        .zip(parts)
                        .all(|((kind, pattern), (other, value))| {
                            let text: String =
                                value.0.iter().map(|(character, _)| character).collect();
                            kind == other && pattern.matches(&text)
                        })
            })
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
