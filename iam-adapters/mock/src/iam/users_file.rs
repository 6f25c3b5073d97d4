//! Reads and writes the users file of the mock.
//!
//! A file in any of the three formats becomes a [`Node`] first, and users are read from nodes only,
//! so all formats have the same rules and every problem is reported at once. No message quotes a
//! value of the file, because a password may be in the wrong place. A message names two things of
//! the file: an e-mail address that is certainly one, and an unknown key that has a value and
//! consists of at most 40 ASCII letters and underscores, as keys do and few passwords.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use iam_adapters::files;
use iam_adapters::scope::{Permission, Permissions};
use iam_adapters::types::Subject;
use secrecy::{ExposeSecret, SecretString};
use serde::de::value::{self, StrDeserializer};
use serde::de::{IntoDeserializer as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use thiserror::Error;

use super::totp::TotpVerifier;
use super::users::{AccountState, User, Users};

/// The users without a users file.
pub const DEMO_USERS: &str = include_str!("demo_users.toml");

/// The format of a users file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.0: one table `[[users]]` for each entry.
    Toml,
    /// JSON (RFC 8259): an object with a list `users`.
    Json,
    /// YAML 1.2, one document, without anchors, aliases and tags of applications: a mapping with a list
    /// `users`. A string that looks like a number or a boolean needs quotes.
    Yaml,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Toml, Self::Json, Self::Yaml];

    /// The format of a file, by its extension.
    ///
    /// # Errors
    ///
    /// [`InvalidUsers`], which names the known extensions.
    pub fn of_file(path: &Path) -> Result<Self, InvalidUsers> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Ok(Self::Toml),
            Some("json") => Ok(Self::Json),
            Some("yaml" | "yml") => Ok(Self::Yaml),
            _ => Err(InvalidUsers::one(
                &path.display().to_string(),
                "its name must end in .toml, .json, .yaml or .yml, which selects the format",
            )),
        }
    }
}

/// All problems of a users file, by entry. Never contains a password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct InvalidUsers {
    origin: String,
    problems: Vec<String>,
}

impl InvalidUsers {
    fn one(origin: &str, problem: impl Into<String>) -> Self {
        Self {
            origin: origin.to_owned(),
            problems: vec![problem.into()],
        }
    }

    /// All problems.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for InvalidUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.problems.join("; "))
    }
}

/// Reads the users file at `path`; without a path, the demo users.
///
/// # Errors
///
/// [`InvalidUsers`] with every problem of the file.
pub fn load(path: Option<&Path>) -> Result<Users, InvalidUsers> {
    let Some(path) = path else {
        return parse(DEMO_USERS, Format::Toml, "the demo users");
    };
    let format = Format::of_file(path)?;
    let origin = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, format, &origin),
        Err(error) => Err(InvalidUsers::one(
            &origin,
            format!("cannot be read: {}", files::reason(&error)),
        )),
    }
}

/// Parses users; `origin` is the name of the text in messages.
///
/// # Errors
///
/// [`InvalidUsers`] with every problem of the text.
pub fn parse(text: &str, format: Format, origin: &str) -> Result<Users, InvalidUsers> {
    let root = match format {
        Format::Toml => toml(text),
        Format::Json => json(text),
        Format::Yaml => yaml(text),
    };
    let root = root.map_err(|problem| InvalidUsers::one(origin, problem))?;
    users(root).map_err(|problems| InvalidUsers {
        origin: origin.to_owned(),
        problems,
    })
}

/// Writes users, by address, as a file that [`parse`] reads. JSON is also YAML.
///
/// # Errors
///
/// [`InvalidUsers`] if there are none, or one has attributes that a users file cannot have.
pub fn write(users: &[Arc<User>], format: Format) -> Result<SecretString, InvalidUsers> {
    #[derive(Serialize)]
    struct File<'a> {
        users: Vec<Written<'a>>,
    }
    #[derive(Serialize)]
    struct Written<'a> {
        email: &'a str,
        password: &'a str,
        permissions: Vec<&'a str>,
        state: AccountState,
        subject: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        totp_secret: Option<String>,
        // Last, because it is a table, which in TOML ends its parent's keys.
        #[serde(skip_serializing_if = "Map::is_empty")]
        attributes: &'a Map<String, Value>,
    }

    let written = users.iter().map(|user| Written {
        email: &user.email,
        password: user.password.expose_secret(),
        permissions: user.permissions.iter().map(Permission::as_str).collect(),
        state: user.state,
        subject: user.subject.as_str(),
        totp_secret: (user.totp.as_ref()).map(|totp| totp.secret().expose_secret().to_owned()),
        attributes: &user.attributes,
    });
    let mut written: Vec<_> = written.collect();
    written.sort_by_key(|user| user.email);
    let file = File { users: written };
    let text = match format {
        Format::Toml => toml::to_string(&file).ok(),
        Format::Json | Format::Yaml => serde_json::to_string_pretty(&file).ok(),
    };
    let text = text.ok_or_else(|| InvalidUsers::one(WRITTEN, ATTRIBUTES))?;
    // A user of the control API may have what a file cannot.
    parse(&text, format, WRITTEN)?;
    Ok(text.into())
}

/// The name of a written file in messages.
const WRITTEN: &str = "the users cannot be written to a file";

fn toml(text: &str) -> Result<Node, String> {
    toml::from_str(text).map_err(|error| {
        // The error's own Display quotes the line, which may hold a password.
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|b| *b == b'\n').count() + 1;
        format!("line {line}: {}", error.message())
    })
}

fn json(text: &str) -> Result<Node, String> {
    serde_json::from_str(text).map_err(|error| {
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or_default();
        at_position(error.line(), error.column(), what)
    })
}

fn yaml(text: &str) -> Result<Node, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX, max_anchors: 0, max_aliases: 0 },
        // [`Node`] keeps both, so that the message names the entry.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        // A snippet would quote the line.
        with_snippet: false,
    };
    let root: Result<Option<Node>, _> = serde_saphyr::from_str_with_options(text, options);
    // An empty document is an empty table, as in TOML.
    root.map(|root| root.unwrap_or_else(|| Node::Table(Vec::new())))
        .map_err(|error| {
            use serde_saphyr::Error;

            // Only texts that are known to quote nothing: others of the library quote tags and
            // scalars.
            let what = match &error {
                // The texts of the parser are fixed, but one ends with a character of the file.
                Error::ExternalMessage { msg, .. } => msg.split(": `").next().unwrap_or_default(),
                Error::MultipleDocuments { .. } => "a second document",
                Error::Unexpected { .. } | Error::NullIntoString { .. } => {
                    "a key that is no plain text"
                }
                Error::Budget {
                    breach: BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. },
                    ..
                }
                | Error::UnknownAnchor { .. }
                | Error::UnsupportedTag { .. } => {
                    "anchors, aliases and tags are not supported (put a text that begins with &, * \
                     or ! in quotes)"
                }
                Error::Budget { .. } => "too many levels or values",
                _ => "not the YAML of a users file",
            };
            let at = error.location().unwrap_or(serde_saphyr::Location::UNKNOWN);
            at_position(at.line(), at.column(), what)
        })
}

/// The levels of YAML. A users file needs four: the document, its list, an entry, its permissions.
const DEPTH_MAX: usize = 16;

/// A syntax error and its position, counted from 1.
fn at_position(line: impl fmt::Display, column: impl fmt::Display, what: &str) -> String {
    format!("line {line}, column {column}: {what}")
}

/// Every user of a file, or every problem.
fn users(root: Node) -> Result<Users, Vec<String>> {
    let mut problems = Vec::new();
    let mut users = Users::default();
    for (number, node) in (1..).zip(list(root, &mut problems)) {
        let entry = Entry::read(node);
        let name = entry.name(number);
        match entry.into_user() {
            Ok(user) => {
                if let Err(error) = users.add(user) {
                    problems.push(format!("{name}: {error}"));
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
            ("users", _) if entries.is_some() => problems.push(repeated("users")),
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

/// One entry, as far as it is valid.
#[derive(Default)]
struct Entry {
    email: Option<String>,
    password: Option<SecretString>,
    permissions: Option<Permissions>,
    state: Option<AccountState>,
    subject: Option<Subject>,
    attributes: Map<String, Value>,
    totp: Option<TotpVerifier>,
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
                entry.problems.push(repeated(&key));
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
            "attributes" => self.attributes = attributes(value)?,
            "state" => self.state = Some(state(text(value, key)?.expose_secret())?),
            "totp_secret" => {
                let totp = TotpVerifier::new(&text(value, key)?);
                self.totp = Some(totp.map_err(|invalid| invalid.to_string())?);
            }
            _ => {
                let subject = text(value, key)?;
                let subject = Subject::new(subject.expose_secret());
                self.subject = Some(subject.ok_or("the subject is empty")?);
            }
        }
        Ok(())
    }

    /// The name of the entry in messages: its number, and its address if that is certainly an address.
    /// A text in the place of an address may be or contain a password.
    fn name(&self, number: usize) -> String {
        match self.email.as_deref().filter(|email| is_address(email)) {
            Some(email) => format!("user {number} ({email:?})"),
            None => format!("user {number}"),
        }
    }

    fn into_user(self) -> Result<User, Vec<String>> {
        let mut problems = self.problems;
        let user = self.email.zip(self.password).map(|(email, password)| {
            User::new(email, password, self.permissions.unwrap_or_default())
        });
        let user = match user {
            Some(Ok(user)) => {
                let user = user.with_state(self.state.unwrap_or_default());
                Some(user.with_attributes(self.attributes).with_totp(self.totp))
            }
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
const KEYS: [&str; 7] = [
    "email",
    "password",
    "permissions",
    "state",
    "subject",
    "attributes",
    "totp_secret",
];

const ONLY_USERS: &str = "there is only \"users\"";

/// Why the message identifies an unknown key by its position only.
const HIDDEN: &str = "its name is not shown, because it may be a password";

/// The maximum length of a key that a message names.
const SHOWN_MAX: usize = 40;

/// The key, if it looks like a key and not like a password. In YAML a password without its key is a key
/// without a value (`{email: a@b, secret}`).
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

fn repeated(key: &str) -> String {
    format!("{key} is present twice")
}

fn text(value: Node, key: &str) -> Result<SecretString, String> {
    match value {
        Node::Text(text) => Ok(text),
        Node::List(_) | Node::Table(_) | Node::Integer(_) | Node::Boolean(_) | Node::Other => {
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
                "permission {place} cannot be part of a scope: it is empty or too long, or has a \
                 space, a quote, a backslash or a character outside of ASCII"
            )
        })
    });
    permissions.collect()
}

const ATTRIBUTES: &str =
    "attributes must be a table of texts, whole numbers, booleans, lists and tables";

/// Texts, whole numbers, booleans, lists and tables of them.
fn attributes(value: Node) -> Result<Map<String, Value>, String> {
    let wrong = || ATTRIBUTES.to_owned();
    let value = json_of(value).ok_or_else(wrong)?;
    match value {
        Value::Object(attributes) => Ok(attributes),
        _ => Err(wrong()),
    }
}

/// `None`: it has a value of another type, or a repeated key.
fn json_of(node: Node) -> Option<Value> {
    match node {
        Node::Text(text) => Some(text.expose_secret().into()),
        Node::Integer(number) => Some(number.into()),
        Node::Boolean(boolean) => Some(boolean.into()),
        Node::List(list) => list.into_iter().map(json_of).collect(),
        Node::Table(table) => {
            let mut members = Map::new();
            for (key, value) in table {
                if members.insert(key, json_of(value)?).is_some() {
                    return None;
                }
            }
            Some(members.into())
        }
        Node::Other => None,
    }
}

fn state(name: &str) -> Result<AccountState, String> {
    let name: StrDeserializer<'_, value::Error> = name.into_deserializer();
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

/// A value of a users file. Any string may be a password.
enum Node {
    Text(SecretString),
    List(Vec<Node>),
    /// In the order of the file. Keys may be repeated if the format allows it.
    Table(Vec<(String, Node)>),
    Integer(i64),
    Boolean(bool),
    /// Other numbers, null and dates of TOML, which no member of a user is.
    Other,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

/// The key of the table with one entry that the TOML library makes of a date.
const TOML_DATE: &str = "$__toml_private_datetime";

struct Reader;

/// Accepts everything, because serde's own errors quote the rejected value.
impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.into()))
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Node, E> {
        Ok(Node::Boolean(boolean))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(i64::try_from(number).map_or(Node::Other, Node::Integer))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut table: Vec<(String, Node)> = Vec::new();
        while let Some(pair) = map.next_entry()? {
            table.push(pair);
        }
        let is_date = matches!(table.as_slice(), [(key, _)] if key == TOML_DATE);
        Ok(if is_date {
            Node::Other
        } else {
            Node::Table(table)
        })
    }
}

#[cfg(test)]
mod tests;
