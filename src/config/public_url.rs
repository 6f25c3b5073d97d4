//! The public URL of the gateway.

use serde::{Deserialize, Serialize};
use url::Url;

/// An `http` or `https` address without credentials, query or fragment (RFC 8414 section 2). It
/// may have a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The URL as in tokens and discovery documents: normalised, and without a slash at its end.
    pub fn issuer(&self) -> &str {
        &self.0
    }

    /// Whether clients use TLS.
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

impl TryFrom<String> for PublicUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url = Url::parse(&text).map_err(|error| format!("not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must begin with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not contain a user name or a password".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must not have a query or a fragment".to_owned());
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }
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
            let url = PublicUrl::try_from(text.to_owned()).expect(text);
            assert_eq!(url.issuer(), issuer, "{text}");
        }
    }

    #[test]
    fn public_url_that_cannot_be_an_issuer_is_refused() {
        let (scheme, credentials) = ("must begin with http", "must not contain a user name");
        let (query, unreadable) = ("must not have a query", "not a URL: ");
        for (text, problem) in [
            ("ftp://example.test", scheme),
            ("localhost:8080", scheme),
            ("https://user@example.test", credentials),
            ("https://:canary@example.test", credentials),
            ("https://example.test/?", query),
            ("https://example.test/?a=b", query),
            ("https://example.test/#", query),
            ("", unreadable),
            ("/", unreadable),
            ("example.test", unreadable),
            ("http://", unreadable),
            ("https://[::1", unreadable),
        ] {
            let refused = PublicUrl::try_from(text.to_owned()).expect_err(text);
            assert!(refused.starts_with(problem), "{text:?}: {refused}");
            assert!(!refused.contains("canary"), "{refused}");
        }
    }
}
