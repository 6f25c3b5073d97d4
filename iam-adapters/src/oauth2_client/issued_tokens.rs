//! The tokens in the response of a token endpoint, read also where the rest of it cannot be used: a
//! session has begun with them, which is then ended.

use std::fmt;

use secrecy::SecretString;
use serde::Serialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Deserializer, Value};
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::name::Name as _;

/// The kind of a token, as in `token_type_hint` (RFC 7009 section 2.1).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    EnumString,
    IntoStaticStr,
    Serialize,
    VariantArray,
    VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "snake_case")]
pub enum TokenKind {
    /// `access_token`.
    AccessToken,
    /// `refresh_token`.
    RefreshToken,
}

/// The tokens in a body, up to where it is not JSON. Refresh tokens are first, because many servers end
/// the access token with them.
pub(super) fn issued_tokens(body: &[u8]) -> Vec<(TokenKind, SecretString)> {
    let mut tokens = Vec::new();
    // An error ends the reading; what was read is kept.
    let _ = Deserializer::from_slice(body).deserialize_map(TokensVisitor(&mut tokens));
    tokens.sort_by_key(|(kind, _)| *kind == TokenKind::AccessToken);
    tokens
}

struct TokensVisitor<'t>(&'t mut Vec<(TokenKind, SecretString)>);

impl<'de> Visitor<'de> for TokensVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            let mut kinds = <TokenKind as VariantArray>::VARIANTS.iter().copied();
            let Some(kind) = kinds.find(|kind| kind.name() == name) else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            if let Value::String(token) = members.next_value()? {
                self.0.push((kind, token.into()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn every_token_is_read_up_to_where_the_body_is_not_json() {
        for (body, expected) in [
            (r#"{"access_token":"a","refresh_token":"r"}"#, "r a"),
            (r#"{"access_token":"a","access_token":"b"}"#, "a b"),
            (r#"{"access_token":7,"refresh_token":"r"}"#, "r"),
            (r#"{"x":{"access_token":"x"},"access_token":"a"}"#, "a"),
            (r#"{"access_token":"a","x":?,"refresh_token":"r"}"#, "a"),
            (r#"{"access_token":"a","refresh_token":"r"#, "a"),
            (r#"[{"access_token":"a"}]"#, ""),
            ("", ""),
        ] {
            let tokens = issued_tokens(body.as_bytes());
            let tokens: Vec<_> = tokens
                .iter()
                .map(|(_, token)| token.expose_secret())
                .collect();
            assert_eq!(tokens.join(" "), expected, "{body}");
        }
    }
}
