//! The name of a host.

use std::fmt;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// The name of a host, without a port: letters, digits, hyphens, underscores and dots, in lower
/// case. It is not an IP address.
#[derive(Clone, PartialEq, Eq)]
pub struct HostName(String);

/// Not the name of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a host name such as iam.example, without scheme, port or wildcard")]
pub struct InvalidHostName;

impl HostName {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// [`InvalidHostName`].
    pub fn parse(text: &str) -> Result<Self, InvalidHostName> {
        text.try_into()
    }

    /// Whether it always resolves to a loopback address (RFC 6761 section 6.3).
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0 == "localhost" || self.0.ends_with(".localhost")
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl TryFrom<&str> for HostName {
    type Error = InvalidHostName;

    fn try_from(text: &str) -> Result<Self, InvalidHostName> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let fits = |label: &str| {
            let mut letters = label.bytes();
            !label.is_empty() && letters.all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        // RFC 3696 section 2: the last label of a name is not all of digits; an address is.
        let mut labels = name.rsplit('.');
        let last = labels.next().unwrap_or_default();
        let numeric = last.bytes().all(|byte| byte.is_ascii_digit());
        if name.len() > 253 || numeric || !fits(last) || !labels.all(fits) {
            return Err(InvalidHostName);
        }
        Ok(Self(name))
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
