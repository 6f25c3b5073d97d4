//! The file that the users of the mock are written in.
//!
//! Each of the three formats becomes a [`Node`] first, and users are read from that alone: so all
//! three are held to the same rules, and every problem is told at once. No message quotes what
//! stands in a file, since a miswritten password may stand anywhere. Two things are named: an
//! address that can be nothing else, and an unknown key that has a value and consists of at most 40
//! ASCII letters and underscores, as keys do and few passwords.

mod entry;
mod node;
mod yaml;

use std::fmt;
use std::path::Path;

use iam_adapters::files;
use thiserror::Error;

use super::users::Users;

use node::Node;

/// The users there are where no file is named, in the form of a users file.
pub const DEMO_USERS: &str = include_str!("demo_users.toml");

/// What a users file may be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.0: `[[users]]` with an entry below each.
    Toml,
    /// JSON (RFC 8259): an object with a list `users`.
    Json,
    /// YAML 1.2, one document, without anchors, aliases and tags: a mapping with a list `users`.
    /// What looks like a number or a truth value has to stand in quotes to be a string.
    Yaml,
}

impl Format {
    /// Every format that there is.
    pub const ALL: [Self; 3] = [Self::Toml, Self::Json, Self::Yaml];

    /// The format of a file, by its extension.
    ///
    /// # Errors
    ///
    /// [`InvalidUsers`], which names the extensions that there are.
    pub fn of_file(path: &Path) -> Result<Self, InvalidUsers> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Ok(Self::Toml),
            Some("json") => Ok(Self::Json),
            Some("yaml" | "yml") => Ok(Self::Yaml),
            _ => Err(InvalidUsers::one(
                &path.display().to_string(),
                "its name must end in .toml, .json, .yaml or .yml, which says how it is written",
            )),
        }
    }
}

/// Everything that is wrong with a users file, by entry. Never holds a password.
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

    /// Everything that is wrong, each in words of its own.
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

/// Reads the users file at `path`, or the demo users where none is named.
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

/// Reads users from text; `origin` is what the messages call it.
///
/// # Errors
///
/// [`InvalidUsers`] with every problem of the text.
pub fn parse(text: &str, format: Format, origin: &str) -> Result<Users, InvalidUsers> {
    let root = match format {
        Format::Toml => toml(text),
        Format::Json => json(text),
        Format::Yaml => yaml::read(text),
    };
    let root = root.map_err(|problem| InvalidUsers::one(origin, problem))?;
    entry::users(root).map_err(|problems| InvalidUsers {
        origin: origin.to_owned(),
        problems,
    })
}

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
        let told = error.to_string();
        let what = told.split(" at line ").next().unwrap_or_default();
        place(error.line(), error.column(), what)
    })
}

/// What is wrong with the form of a text, and where; both count from 1.
fn place(line: usize, column: usize, what: &str) -> String {
    format!("line {line}, column {column}: {what}")
}

#[cfg(test)]
mod tests;
