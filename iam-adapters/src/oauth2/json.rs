//! Responses are read straight into their types: a generic JSON tree would keep the last of two
//! equal members, and accept `"true"` as a string.

use serde::de::DeserializeOwned;

/// The bytes are not a JSON object with the members that are needed.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// Reads a JSON object; an array, which serde would take for one, is none.
pub(crate) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    // serde does not check that members that it skips are text.
    let text = std::str::from_utf8(body).map_err(|_| Unreadable)?;
    if text.trim_ascii_start().starts_with('{') {
        serde_json::from_str(text).map_err(|_| Unreadable)
    } else {
        Err(Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Introspected {
        active: bool,
    }

    #[test]
    fn an_answer_is_one_json_object_of_text() {
        let active = |body: &[u8]| object::<Introspected>(body).map(|answer| answer.active);
        assert!(matches!(
            active(br#" {"active":true,"x":"\u00e9"} "#),
            Ok(true)
        ));
        for bad in [
            b"".as_slice(),
            b"null",
            b"[true]",
            b"{\"active\":\"true\"}",
            b"{\"active\":1}",
            b"{\"active\":null}",
            b"{\"active\":true,\"active\":false}",
            b"{\"active\":true,\"x\":\"\xe9\"}",
            b"{\"active\":true}{}",
            b"\xef\xbb\xbf{\"active\":true}",
        ] {
            assert!(active(bad).is_err(), "{bad:?}");
        }
    }
}
