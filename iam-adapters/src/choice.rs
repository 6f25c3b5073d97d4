//! Choices: the text that is the name of one of the variants of an enum.

use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize as _, Deserializer};
use strum::VariantNames;

/// Reads an enum by the name of its variant.
///
/// # Errors
///
/// It is not a text, or none of the names. The message has them all, and not the text.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr + VariantNames,
    D: Deserializer<'de>,
{
    parse(&String::deserialize(deserializer)?)
}

/// Reads an enum that can be left out.
///
/// # Errors
///
/// As [`deserialize`].
pub fn optional<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr + VariantNames,
    D: Deserializer<'de>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse(&text)).transpose()
}

fn parse<T: FromStr + VariantNames, E: Error>(text: &str) -> Result<T, E> {
    text.parse().map_err(|_| E::custom(expected(T::VARIANTS)))
}

/// The problem of a text that is none of these names.
fn expected(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("expected {} or {last}", others.join(", "))
        }
        _ => format!("expected {}", names.concat()),
    }
}
