//! The labels of a request.

use crate::http::problem::Code;

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `POST /api/v1/auth/login`.
    Login,
    /// `POST /api/v1/auth/token`.
    Token,
    /// `POST /api/v1/auth/logout`.
    Logout,
    /// The discovery documents and `openapi.yaml`.
    WellKnown,
    /// The management listener.
    Management,
    /// Anything else.
    Other,
}

impl Route {
    pub(super) const ALL: [Self; 6] = [
        Self::Login,
        Self::Token,
        Self::Logout,
        Self::WellKnown,
        Self::Management,
        Self::Other,
    ];

    /// The route of a path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path {
            "/api/v1/auth/login" => Self::Login,
            "/api/v1/auth/token" => Self::Token,
            "/api/v1/auth/logout" => Self::Logout,
            "/openapi.yaml" => Self::WellKnown,
            "/health/live" | "/health/ready" | "/metrics" => Self::Management,
            path if path.starts_with("/.well-known/") => Self::WellKnown,
            _ => Self::Other,
        }
    }

    /// Whether it is one of the three operations.
    #[must_use]
    pub const fn is_operation(self) -> bool {
        matches!(self, Self::Login | Self::Token | Self::Logout)
    }

    /// The route's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Token => "token",
            Self::Logout => "logout",
            Self::WellKnown => "well_known",
            Self::Management => "management",
            Self::Other => "other",
        }
    }
}

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
    pub(super) const ALL: [Self; 7] = [
        Self::Ok,
        Self::Error(Code::InvalidRequest),
        Self::Error(Code::InvalidGrant),
        Self::Error(Code::InvalidScope),
        Self::Error(Code::UnsupportedGrantType),
        Self::Error(Code::TemporarilyUnavailable),
        Self::Error(Code::ServerError),
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
