//! How requests end.

/// How a request ended: successfully, or with an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Successfully.
    Ok,
    /// `invalid_request`.
    InvalidRequest,
    /// `invalid_grant`.
    InvalidGrant,
    /// `invalid_scope`.
    InvalidScope,
    /// `unsupported_grant_type`.
    UnsupportedGrantType,
    /// `temporarily_unavailable`.
    TemporarilyUnavailable,
    /// `server_error`.
    ServerError,
    /// `invalid_token`.
    InvalidToken,
    /// `access_denied`.
    AccessDenied,
}

impl Outcome {
    pub(super) const ALL: [Self; 9] = [
        Self::Ok,
        Self::InvalidRequest,
        Self::InvalidGrant,
        Self::InvalidScope,
        Self::UnsupportedGrantType,
        Self::TemporarilyUnavailable,
        Self::ServerError,
        Self::InvalidToken,
        Self::AccessDenied,
    ];

    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// The outcome's name: `ok`, or the error code.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InvalidRequest => "invalid_request",
            Self::InvalidGrant => "invalid_grant",
            Self::InvalidScope => "invalid_scope",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::ServerError => "server_error",
            Self::InvalidToken => "invalid_token",
            Self::AccessDenied => "access_denied",
        }
    }
}
