//! Places in a document (RFC 6901), and the templates of its paths.

/// A JSON pointer.
#[derive(Debug, Clone)]
pub(super) struct Pointer(String);

impl Pointer {
    /// The whole document.
    pub(super) const fn root() -> Self {
        Self(String::new())
    }

    /// A member of this place; the name may contain any character.
    pub(super) fn child(&self, name: &str) -> Self {
        let name = name.replace('~', "~0").replace('/', "~1");
        Self(format!("{}/{name}", self.0))
    }

    /// As a URI fragment (section 6): only the braces of a template are not allowed there.
    pub(super) fn fragment(&self) -> String {
        self.0.replace('{', "%7B").replace('}', "%7D")
    }

    /// The pointer as text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Pointer {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Whether a path matches a template: it has as many parts, which are equal except for parameters.
pub(super) fn fits(template: &str, path: &str) -> bool {
    let (mut known, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (known.next(), given.next()) {
            (None, None) => return true,
            (Some(known), Some(given)) if known.starts_with('{') && !given.is_empty() => {}
            (Some(known), Some(given)) if known == given => {}
            _ => return false,
        }
    }
}
