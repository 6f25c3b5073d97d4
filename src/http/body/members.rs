//! Finds out which member of a request is wrong, where it could not be read.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::http::dto::Presence;
use crate::http::problem::InvalidRequest;

/// The first thing that is wrong with a body, in the order of the text; what is missing comes
/// last.
pub(super) fn wrong(text: &str, members: &'static [(&'static str, Presence)]) -> InvalidRequest {
    let mut found = InvalidRequest::NotJson;
    let mut json = serde_json::Deserializer::from_str(text);
    // What is wrong stands in `found`: the error says where in the text, and may quote it.
    let _ = json.deserialize_map(Members {
        known: members,
        found: &mut found,
    });
    found
}

struct Members<'a> {
    known: &'static [(&'static str, Presence)],
    found: &'a mut InvalidRequest,
}

impl Members<'_> {
    fn refuse<E: serde::de::Error>(self, found: InvalidRequest) -> E {
        *self.found = found;
        E::custom(found)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let Some((name, _)) = self.known.iter().find(|(known, _)| *known == name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen.contains(name) {
                return Err(self.refuse(InvalidRequest::Repeated(name)));
            }
            seen.push(name);
            if !map.next_value::<Value>()?.is_string() {
                return Err(self.refuse(InvalidRequest::NotAString(name)));
            }
        }
        for (name, presence) in self.known {
            if *presence == Presence::Required && !seen.contains(name) {
                return Err(self.refuse(InvalidRequest::Missing(name)));
            }
        }
        Err(A::Error::custom("nothing is wrong with a member"))
    }
}
