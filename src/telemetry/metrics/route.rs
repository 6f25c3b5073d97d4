//! What a request asked for, as a label.

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `POST /api/v1/auth/login`.
    Login,
    /// `POST /api/v1/auth/token`.
    Token,
    /// `POST /api/v1/auth/logout`.
    Logout,
    /// `POST /api/v1/auth/backchannel-logout`.
    BackchannelLogout,
    /// The discovery documents and `openapi.yaml`.
    WellKnown,
    /// The management listener.
    Management,
    /// Anything else.
    Other,
}

impl Route {
    pub(super) const ALL: [Self; 7] = [
        Self::Login,
        Self::Token,
        Self::Logout,
        Self::BackchannelLogout,
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
            "/api/v1/auth/backchannel-logout" => Self::BackchannelLogout,
            "/openapi.yaml" => Self::WellKnown,
            "/health/live" | "/health/ready" | "/metrics" => Self::Management,
            path if path.starts_with("/.well-known/") => Self::WellKnown,
            path if path.starts_with("/admin/") => Self::Management,
            _ => Self::Other,
        }
    }

    /// Whether it is an operation of the gateway, which one that stops does not begin.
    #[must_use]
    pub const fn is_operation(self) -> bool {
        matches!(
            self,
            Self::Login | Self::Token | Self::Logout | Self::BackchannelLogout
        )
    }

    /// The route's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Token => "token",
            Self::Logout => "logout",
            Self::BackchannelLogout => "backchannel_logout",
            Self::WellKnown => "well_known",
            Self::Management => "management",
            Self::Other => "other",
        }
    }
}
