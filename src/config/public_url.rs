//! The public URL of the gateway.

use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;
use url::Url;

/// An `http` or `https` address without credentials, query or fragment (RFC 8414 section 2). It
/// may have a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The URL as in tokens and discovery documents: normalised, and without a slash at its end.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.0
    }

    /// Whether clients use TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }
}

/// The URL of a gateway with default settings.
impl Default for PublicUrl {
    fn default() -> Self {
        Self("http://localhost:8080".to_owned())
    }
}

impl FromStr for PublicUrl {
    type Err = InvalidPublicUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text).map_err(InvalidPublicUrl::Unreadable)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidPublicUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidPublicUrl::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidPublicUrl::QueryOrFragment);
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }
}

impl Serialize for PublicUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.issuer())
    }
}

impl TryFrom<String> for PublicUrl {
    type Error = InvalidPublicUrl;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Why a text cannot be the public address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidPublicUrl {
    /// Not a URL.
    #[error("not a URL: {0}")]
    Unreadable(url::ParseError),
    /// Another scheme.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// A user name or a password in it.
    #[error("must not contain a user name or a password")]
    Credentials,
    /// A `?` or a `#` in it.
    #[error("must not have a query or a fragment")]
    QueryOrFragment,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issuer_is_normalised_and_has_no_slash_at_its_end() {
        for (text, issuer) in [
            ("http://localhost:8080", "http://localhost:8080"),
            ("http://localhost:8080/", "http://localhost:8080"),
            (
                "https://Auth.Example.test:443/",
                "https://auth.example.test",
            ),
            ("https://example.test/auth//", "https://example.test/auth"),
            (
                "https://example.test/a/../auth",
                "https://example.test/auth",
            ),
        ] {
            let url: PublicUrl = text.parse().expect(text);
            assert_eq!(url.issuer(), issuer, "{text}");
        }
    }

    #[test]
    fn public_url_that_cannot_be_an_issuer_is_refused() {
        use InvalidPublicUrl::{Credentials, QueryOrFragment, Scheme};
        for (text, problem) in [
            ("ftp://example.test", Scheme),
            ("localhost:8080", Scheme),
            ("https://user@example.test", Credentials),
            ("https://:canary@example.test", Credentials),
            ("https://example.test/?", QueryOrFragment),
            ("https://example.test/?a=b", QueryOrFragment),
            ("https://example.test/#", QueryOrFragment),
        ] {
            assert_eq!(text.parse::<PublicUrl>().err(), Some(problem), "{text}");
        }
        for text in ["", "/", "example.test", "http://", "https://[::1"] {
            let refused = text.parse::<PublicUrl>();
            assert!(
                matches!(refused, Err(InvalidPublicUrl::Unreadable(_))),
                "{text:?}"
            );
        }
    }
}
