//! What a namespace is called.

use std::fmt;

use thiserror::Error;

const BYTES_MAX: usize = 64;

/// The name of a namespace: up to 64 of the letters, digits, `.`, `_` and `-` of ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

/// No name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a namespace's name has 1 to 64 of A-Z a-z 0-9 . _ -")]
pub struct InvalidName;

impl Name {
    /// The namespace of those who name none.
    #[must_use]
    pub fn unnamed() -> Self {
        Self("default".to_owned())
    }

    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`InvalidName`].
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let fair = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let bounded = (1..=BYTES_MAX).contains(&text.len());
        // Neither of the two that a path takes for something else.
        if bounded && text.bytes().all(fair) && text.bytes().any(|byte| byte != b'.') {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidName)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["a", "checkout-42", "Test_Suite.3", &"x".repeat(64)] {
            assert_eq!(
                Name::parse(name).map(|name| name.to_string()).as_deref(),
                Ok(name)
            );
        }
        for none in ["", ".", "..", "a b", "a/b", "ä", "a\n", &"x".repeat(65)] {
            assert_eq!(Name::parse(none), Err(InvalidName), "{none:?}");
        }
    }
}
