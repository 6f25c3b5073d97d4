//! JSON objects from a client or an IAM.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use thiserror::Error;

/// Why bytes are not the JSON object that is expected. Shows nothing of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidObject {
    /// Another value, such as an array.
    #[error("not a JSON object")]
    NotAnObject,
    /// Not text (RFC 8259 section 8.1).
    #[error("not UTF-8")]
    NotUtf8,
    /// Not JSON, or a member is missing, repeated or of another type.
    #[error("not JSON with the expected members")]
    Members,
}

/// Reads a JSON object. Stricter than serde alone, which takes an array for a struct and does not
/// look whether members that it skips are UTF-8.
///
/// A `T` with `#[derive(Deserialize)]` also refuses a member that appears twice; a
/// `serde_json::Value` keeps the last of the two.
///
/// # Errors
///
/// [`InvalidObject`].
pub fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, InvalidObject> {
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err(InvalidObject::NotAnObject);
    }
    let text = std::str::from_utf8(json).map_err(|_| InvalidObject::NotUtf8)?;
    serde_json::from_str(text).map_err(|_| InvalidObject::Members)
}

/// An object, none of whose members is repeated. A [`Value`] alone keeps the last.
#[derive(derive_more::Deref)]
pub(crate) struct UniqueMembers(pub(crate) Value);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = UniqueMembers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut unique = Map::new();
        while let Some((name, value)) = members.next_entry()? {
            if unique.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is repeated"));
            }
        }
        Ok(UniqueMembers(Value::Object(unique)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Answer {
        active: bool,
    }

    #[test]
    fn object_is_text_with_each_member_once_and_of_its_type() {
        let read = |json| object::<Answer>(json).map(|answer| answer.active);
        assert_eq!(read(br#" {"active":true,"x":"\u00e9"} "#), Ok(true));
        for (bad, why) in [
            (b"".as_slice(), InvalidObject::NotAnObject),
            (b"null", InvalidObject::NotAnObject),
            (b"[true]", InvalidObject::NotAnObject),
            (b"\xef\xbb\xbf{\"active\":true}", InvalidObject::NotAnObject),
            (b"{\"active\":true,\"x\":\"\xe9\"}", InvalidObject::NotUtf8),
            (b"{}", InvalidObject::Members),
            (b"{\"active\":\"true\"}", InvalidObject::Members),
            (b"{\"active\":1}", InvalidObject::Members),
            (b"{\"active\":null}", InvalidObject::Members),
            (
                b"{\"active\":true,\"active\":false}",
                InvalidObject::Members,
            ),
            (b"{\"active\":true}{}", InvalidObject::Members),
        ] {
            assert_eq!(read(bad), Err(why), "{bad:?}");
        }
    }
}
