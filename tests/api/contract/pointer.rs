//! Places in the document (RFC 6901).

/// A JSON pointer.
#[derive(Debug, Clone)]
pub(crate) struct Pointer(String);

impl Pointer {
    pub(crate) const fn root() -> Self {
        Self(String::new())
    }

    /// One member further down; the name may hold any character.
    pub(crate) fn child(&self, name: &str) -> Self {
        let name = name.replace('~', "~0").replace('/', "~1");
        Self(format!("{}/{name}", self.0))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Pointer {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
