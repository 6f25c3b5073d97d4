//! Users out of what a file says, or all that is wrong with it.

use iam_adapters::scope::{Permission, Permissions};
use iam_adapters::types::Subject;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use super::super::user::{AccountState, User};
use super::super::users::Users;
use super::node::Node;

/// Every user of a file, or every problem.
pub(super) fn users(root: Node) -> Result<Users, Vec<String>> {
    let mut problems = Vec::new();
    let mut users = Users::default();
    for (number, node) in (1..).zip(list(root, &mut problems)) {
        let entry = Entry::read(node);
        let name = entry.name(number);
        match entry.into_user() {
            Ok(user) => {
                if let Err(refused) = users.add(user) {
                    problems.push(format!("{name}: {refused}"));
                }
            }
            Err(wrong) => {
                problems.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
            }
        }
    }
    if users.iter().len() == 0 && problems.is_empty() {
        problems.push("there are no users".to_owned());
    }
    if problems.is_empty() {
        Ok(users)
    } else {
        Err(problems)
    }
}

/// The entries of the list `users`.
fn list(root: Node, problems: &mut Vec<String>) -> Vec<Node> {
    let Node::Table(table) = root else {
        problems.push("must be a table with the list \"users\"".to_owned());
        return Vec::new();
    };
    let mut entries = None;
    for (place, (key, node)) in (1..).zip(table) {
        match (key.as_str(), node) {
            ("users", _) if entries.is_some() => problems.push(twice("users")),
            ("users", Node::List(list)) => entries = Some(list),
            ("users", _) => {
                problems.push("\"users\" must be a list of entries".to_owned());
                entries = Some(Vec::new());
            }
            (key, node) => problems.push(match shown(key, &node) {
                Some(key) => format!("key {key} at the top is unknown; {ONLY_USERS}"),
                None => format!("key {place} at the top is unknown; {HIDDEN}; {ONLY_USERS}"),
            }),
        }
    }
    entries.unwrap_or_default()
}

/// One entry, as far as it could be read.
#[derive(Default)]
struct Entry {
    email: Option<String>,
    password: Option<SecretString>,
    permissions: Option<Permissions>,
    state: Option<AccountState>,
    subject: Option<Subject>,
    problems: Vec<String>,
}

impl Entry {
    fn read(node: Node) -> Self {
        let mut entry = Self::default();
        let Node::Table(table) = node else {
            entry
                .problems
                .push("must be a table of keys and values".to_owned());
            return entry;
        };
        let mut seen: Vec<String> = Vec::new();
        for (place, (key, value)) in (1..).zip(table) {
            if !KEYS.contains(&key.as_str()) {
                entry.problems.push(unknown(place, &key, &value));
            } else if seen.contains(&key) {
                entry.problems.push(twice(&key));
            } else if let Err(problem) = entry.take(&key, value) {
                entry.problems.push(problem);
            }
            seen.push(key);
        }
        for needed in ["email", "password"] {
            if !seen.iter().any(|key| key == needed) {
                entry.problems.push(format!("{needed} is missing"));
            }
        }
        entry
    }

    fn take(&mut self, key: &str, value: Node) -> Result<(), String> {
        match key {
            "email" => self.email = Some(text(value, key)?.expose_secret().to_owned()),
            "password" => self.password = Some(text(value, key)?),
            "permissions" => self.permissions = Some(permissions(value)?),
            "state" => self.state = Some(state(text(value, key)?.expose_secret())?),
            _ => {
                let subject = text(value, key)?;
                let subject = Subject::new(subject.expose_secret());
                self.subject = Some(subject.ok_or("the subject is empty")?);
            }
        }
        Ok(())
    }

    /// What the messages call it: its number, and its address where that is one beyond doubt. What
    /// stands in the place of an address may be a password, or may have one after it.
    fn name(&self, number: usize) -> String {
        match self.email.as_deref().filter(|email| is_address(email)) {
            Some(email) => format!("user {number} ({email:?})"),
            None => format!("user {number}"),
        }
    }

    fn into_user(self) -> Result<User, Vec<String>> {
        let mut problems = self.problems;
        let made = self.email.zip(self.password).map(|(email, password)| {
            User::new(email, password, self.permissions.unwrap_or_default())
        });
        let user = match made {
            Some(Ok(user)) => Some(user.with_state(self.state.unwrap_or_default())),
            Some(Err(invalid)) => {
                problems.push(invalid.to_string());
                None
            }
            None => None,
        };
        match user {
            Some(user) if problems.is_empty() => Ok(match self.subject {
                Some(subject) => user.with_subject(subject),
                None => user,
            }),
            _ => Err(problems),
        }
    }
}

/// Every key of an entry.
const KEYS: [&str; 5] = ["email", "password", "permissions", "state", "subject"];

const ONLY_USERS: &str = "there is only \"users\"";

/// Why the message names an unknown key by its place only.
const HIDDEN: &str = "its name is not shown, because it may be a password";

/// The longest key that is shown.
const SHOWN_MAX: usize = 40;

/// The key, where it looks like one: a password may stand in its place. A password whose own key is
/// missing is a key without a value in YAML (`{email: a@b, secret}`).
fn shown<'a>(key: &'a str, value: &Node) -> Option<&'a str> {
    let has_value = !matches!(value, Node::Other);
    let letters = |text: &str| text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    (has_value && (1..=SHOWN_MAX).contains(&key.len()) && letters(key)).then_some(key)
}

fn unknown(place: usize, key: &str, value: &Node) -> String {
    let known = KEYS.join(", ");
    match shown(key, value) {
        Some(key) => format!("key {key} is unknown; there are {known}"),
        None => format!("key {place} is unknown; {HIDDEN}; there are {known}"),
    }
}

fn twice(key: &str) -> String {
    format!("{key} is there twice")
}

fn text(value: Node, key: &str) -> Result<SecretString, String> {
    match value {
        Node::Text(text) => Ok(text),
        Node::List(_) | Node::Table(_) | Node::Other => {
            Err(format!("the {key} is not a string in quotes"))
        }
    }
}

fn permissions(value: Node) -> Result<Permissions, String> {
    let Node::List(list) = value else {
        return Err("permissions must be a list of strings".to_owned());
    };
    let permissions = (1..).zip(list).map(|(place, name)| {
        let Node::Text(name) = name else {
            return Err(format!("permission {place} is not a string in quotes"));
        };
        Permission::parse(name.expose_secret()).map_err(|_| {
            format!(
                "permission {place} cannot stand in a scope: it is empty or too long, or has a \
                 blank, a quote, a backslash or a character outside of ASCII"
            )
        })
    });
    permissions.collect()
}

fn state(name: &str) -> Result<AccountState, String> {
    let name: StrDeserializer<'_, Error> = name.into_deserializer();
    AccountState::deserialize(name)
        .map_err(|_| "the state must be active, disabled, locked or incomplete".to_owned())
}

/// RFC 5321 section 4.1.2, without quoted strings and with the letters of all languages.
fn is_address(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c))
    };
    text.split_once('@')
        .is_some_and(|(local, domain)| is_part(local) && is_part(domain))
}
