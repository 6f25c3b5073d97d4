//! How requests end.

use crate::http::problem::Code;

/// How a request ended: well, or with one of the error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Ok,
    /// With this error.
    Error(Code),
}

impl From<Code> for Outcome {
    fn from(code: Code) -> Self {
        Self::Error(code)
    }
}

impl Outcome {
    pub(super) const ALL: [Self; 9] = [
        Self::Ok,
        Self::Error(Code::InvalidRequest),
        Self::Error(Code::InvalidGrant),
        Self::Error(Code::InvalidScope),
        Self::Error(Code::UnsupportedGrantType),
        Self::Error(Code::TemporarilyUnavailable),
        Self::Error(Code::ServerError),
        Self::Error(Code::InvalidToken),
        Self::Error(Code::AccessDenied),
    ];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Error(code) => 1 + code as usize,
        }
    }

    /// The outcome's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error(code) => code.name(),
        }
    }
}
