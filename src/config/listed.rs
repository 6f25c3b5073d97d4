//! Lists: of the file's own kind, or one text with commas, which is all that the environment has.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

/// Reads a list, each item by `T`'s own rule.
pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: for<'a> TryFrom<&'a str, Error: fmt::Display>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Items(PhantomData))
}

struct Items<T>(PhantomData<T>);

impl<'de, T> Visitor<'de> for Items<T>
where
    T: for<'a> TryFrom<&'a str, Error: fmt::Display>,
{
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts, or one text with commas")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        text.split(',').map(|item| parse(item.trim())).collect()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<String>()? {
            list.push(parse(&item)?);
        }
        Ok(list)
    }
}

fn parse<T, E>(item: &str) -> Result<T, E>
where
    T: for<'a> TryFrom<&'a str, Error: fmt::Display>,
    E: Error,
{
    T::try_from(item).map_err(|error| E::custom(format!("{item:?}: {error}")))
}
