//! Lists: a TOML list, or one text with commas, for the environment.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of texts, or one text with commas"
)]
enum List {
    Items(Vec<String>),
    Text(String),
}

/// Reads a list, and parses each item.
///
/// # Errors
///
/// It is neither a list of texts nor a text, or an item is invalid. The message has the number of the
/// item, not its text, which may be an address with a password.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: for<'a> TryFrom<&'a str, Error: fmt::Display>,
    D: Deserializer<'de>,
{
    let items = match List::deserialize(deserializer)? {
        List::Items(items) => items,
        List::Text(text) if text.trim().is_empty() => Vec::new(),
        List::Text(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
    };
    let parse = |(number, item): (usize, &String)| {
        T::try_from(item).map_err(|error| format!("item {number}: {error}"))
    };
    (1..)
        .zip(&items)
        .map(parse)
        .collect::<Result<_, _>>()
        .map_err(Error::custom)
}
