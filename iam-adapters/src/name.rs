//! The names of values in metrics, logs and responses.

/// A value with a name: an enum that derives [`strum::IntoStaticStr`].
pub trait Name: Into<&'static str> {
    /// The name.
    fn name(self) -> &'static str {
        self.into()
    }
}

impl<T: Into<&'static str>> Name for T {}
