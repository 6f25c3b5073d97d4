//! JSON objects from a client or an IAM.

use serde::Deserialize;
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
