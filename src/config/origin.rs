//! Where the value of a setting comes from.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where the value of a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Default,
    File(PathBuf),
    Environment(String),
}

impl Origin {
    /// The file or the variable.
    pub(super) fn place(&self) -> Cow<'_, str> {
        match self {
            Self::Default => "default".into(),
            Self::File(path) => path.to_string_lossy(),
            Self::Environment(variable) => variable.into(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            // In quotes, so that a path with a line break stays in its comment.
            Self::File(_) => write!(f, "file {:?}", self.place()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
        }
    }
}
