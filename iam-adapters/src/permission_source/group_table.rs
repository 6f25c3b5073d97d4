//! A table that gives groups scopes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::distinguished_name::{DistinguishedName, NamePattern};
use super::pattern::Pattern;
use crate::scope::{Permission, Permissions};

/// One line of the table, as in the configuration.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRule {
    /// The name of the IAM whose groups the line is about; `None`: the groups of every IAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iam: Option<String>,
    /// The group: a distinguished name, or a plain name. `*` stands for any part of one value of a
    /// distinguished name, or of one part of a plain name between slashes.
    pub group: String,
    /// The scopes of its members.
    pub scopes: Vec<String>,
}

/// Gives the members of groups scopes. A group that is not in the table gives nothing.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(try_from = "Vec<GroupRule>", into = "Vec<GroupRule>")]
pub struct GroupTable {
    rules: Vec<GroupRule>,
    /// In the order of the rules.
    patterns: Vec<(GroupPattern, Vec<Permission>)>,
}

/// Reads the table. The error is the first line that is not valid, from 1, and the reason.
impl TryFrom<Vec<GroupRule>> for GroupTable {
    type Error = String;

    fn try_from(rules: Vec<GroupRule>) -> Result<Self, String> {
        let lines = rules.iter().zip(1..);
        let patterns = lines
            .map(|(rule, line)| read(rule).map_err(|invalid| format!("line {line}: {invalid}")));
        let patterns = patterns.collect::<Result<_, _>>()?;
        Ok(Self { rules, patterns })
    }
}

impl From<GroupTable> for Vec<GroupRule> {
    fn from(table: GroupTable) -> Self {
        table.rules
    }
}

#[derive(Debug, Clone)]
enum GroupPattern {
    Plain(Pattern),
    Distinguished(NamePattern),
}

impl GroupTable {
    /// Whether it has no line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The names of IAMs in the lines.
    pub fn iams(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|rule| rule.iam.as_deref())
    }

    /// The scopes of a member of these groups of the IAM with this name.
    #[must_use]
    pub fn permissions(&self, iam: &str, groups: &[String]) -> Permissions {
        let mut found = BTreeSet::new();
        for group in groups {
            let name = DistinguishedName::parse(group);
            for (rule, (pattern, scopes)) in self.rules.iter().zip(&self.patterns) {
                let is_of_iam = rule.iam.as_deref().is_none_or(|of| of == iam);
                if is_of_iam && pattern.matches(group, name.as_ref()) {
                    found.extend(scopes);
                }
            }
        }
        found.into_iter().cloned().collect()
    }

    /// The groups of these, of the IAM with this name, that give the scope.
    pub fn groups_with<'g>(
        &self,
        iam: &str,
        groups: &'g [String],
        scope: &str,
    ) -> impl Iterator<Item = &'g str> {
        let gives = |group: &&String| {
            self.permissions(iam, std::slice::from_ref(group))
                .contains(scope)
        };
        groups.iter().filter(gives).map(String::as_str)
    }
}

fn read(rule: &GroupRule) -> Result<(GroupPattern, Vec<Permission>), String> {
    if rule.group.is_empty() {
        return Err("group must not be empty".to_owned());
    }
    let pattern = if rule.group.contains('=') {
        let invalid = "group has a `=` and is not a distinguished name (RFC 4514)";
        GroupPattern::Distinguished(NamePattern::parse(&rule.group).ok_or(invalid)?)
    } else {
        let characters = rule.group.chars();
        let characters = characters.map(|c| (c != '*').then_some(c));
        GroupPattern::Plain(Pattern::new(characters, Some('/')))
    };
    let scopes = rule.scopes.iter().map(|scope| Permission::parse(scope));
    let scopes = scopes.collect::<Result<_, _>>();
    let scopes = scopes.map_err(|invalid| format!("each of scopes {invalid}"))?;
    Ok((pattern, scopes))
}

impl GroupPattern {
    /// Whether a group matches. A distinguished name is not compared with plain patterns.
    fn matches(&self, group: &str, name: Option<&DistinguishedName>) -> bool {
        match (self, name) {
            (Self::Plain(pattern), None) => pattern.matches(group),
            (Self::Distinguished(pattern), Some(name)) => pattern.matches(name),
            (Self::Plain(_), Some(_)) | (Self::Distinguished(_), None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::InvalidScope;

    fn table(rules: &[(&str, &[&str])]) -> Result<GroupTable, String> {
        let rule = |(group, scopes): &(&str, &[&str])| GroupRule {
            iam: None,
            group: (*group).to_owned(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        };
        rules.iter().map(rule).collect::<Vec<_>>().try_into()
    }

    fn scopes(table: &GroupTable, groups: &[&str]) -> Vec<String> {
        let groups: Vec<_> = groups.iter().map(|group| (*group).to_owned()).collect();
        let permissions = table.permissions("corp", &groups);
        permissions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn member_has_the_scopes_of_all_listed_groups_and_no_others() {
        let table = table(&[
            ("readers", &["read"]),
            ("cn=Writers,dc=example,dc=test", &["read", "write"]),
            ("/team/*", &["team"]),
            ("empty", &[]),
        ])
        .expect("a table");
        for (groups, expected) in [
            (&[][..], &[][..]),
            (&["others", "empty"], &[]),
            (&["readers"], &["read"]),
            (&["Readers"], &[]),
            (
                &["readers", "CN=writers, DC=example, DC=test"],
                &["read", "write"],
            ),
            (&["/team/a"], &["team"]),
            (&["/team/a/b"], &[]),
            (&["/team"], &[]),
            (&["cn=readers,dc=test"], &[]),
        ] {
            assert_eq!(scopes(&table, groups), expected, "{groups:?}");
        }
    }

    #[test]
    fn line_with_an_iam_gives_nothing_to_the_groups_of_another_one() {
        let rule = |iam: Option<&str>, scope: &str| GroupRule {
            iam: iam.map(str::to_owned),
            group: "admins".to_owned(),
            scopes: vec![scope.to_owned()],
        };
        let rules = vec![
            rule(Some("corp"), "corp:admin"),
            rule(Some("partners"), "partners:admin"),
            rule(None, "read"),
        ];
        let table = GroupTable::try_from(rules).expect("a table");
        assert_eq!(table.iams().collect::<Vec<_>>(), ["corp", "partners"]);
        let groups = ["admins".to_owned()];
        for (iam, own, other) in [
            ("corp", "corp:admin", "partners:admin"),
            ("partners", "partners:admin", "corp:admin"),
        ] {
            let permissions = table.permissions(iam, &groups);
            assert!(permissions.contains(own) && permissions.contains("read"));
            assert!(!permissions.contains(other), "{iam}");
            assert_eq!(table.groups_with(iam, &groups, own).count(), 1);
            assert_eq!(table.groups_with(iam, &groups, other).count(), 0);
        }
        assert_eq!(table.permissions("Corp", &groups).len(), 1);
    }

    #[test]
    fn groups_with_a_scope_are_those_that_give_it() {
        let table = table(&[("a*", &["read"]), ("b", &["write"])]).expect("a table");
        let groups = ["a1", "b", "a2"].map(str::to_owned);
        let with = |scope| {
            table
                .groups_with("corp", &groups, scope)
                .collect::<Vec<_>>()
        };
        assert_eq!(with("read"), ["a1", "a2"]);
        assert_eq!(with("write"), ["b"]);
        assert_eq!(with("other"), [""; 0]);
    }

    #[test]
    fn several_wildcards_match_in_their_order() {
        let table = table(&[("*-a-*-b", &["s"]), ("x*x", &["t"])]).expect("a table");
        for (group, expected) in [
            ("1-a-2-b", &["s"][..]),
            ("-a--b", &["s"]),
            ("1-a-2-b-b", &["s"]),
            ("-a-b", &[]),
            ("1-a-2/3-b", &[]),
            ("xx", &["t"]),
            ("x", &[]),
        ] {
            assert_eq!(scopes(&table, &[group]), expected, "{group}");
        }
    }

    #[test]
    fn invalid_lines_are_refused_with_their_number() {
        let no_name = "group has a `=` and is not a distinguished name (RFC 4514)";
        let no_scope = format!("each of scopes {}", InvalidScope::Grammar);
        let no_scope = no_scope.as_str();
        for (rule, invalid) in [
            (("", &["s"]), "group must not be empty"),
            (("cn=", &["s"]), no_name),
            (("a", &["s s"]), no_scope),
            (("a", &[""]), no_scope),
        ] {
            let (group, scopes) = rule;
            let refused = table(&[("a", &["s"]), (group, scopes)]).map(|_| ());
            assert_eq!(refused, Err(format!("line 2: {invalid}")), "{rule:?}");
        }
    }
}
