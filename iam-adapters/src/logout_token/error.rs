//! Why a logout token is not accepted. The words are for the log, and hold nothing of the token.

use thiserror::Error;

use crate::error::IamError;

/// Why a logout token brought no notice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogoutTokenError {
    /// The token is not good, and never will be.
    #[error("invalid logout token: {0}")]
    Invalid(InvalidLogoutToken),
    /// The IAM's keys cannot be had now, so nothing is known of the token.
    #[error("no keys to verify a logout token with: {0}")]
    NoKeys(IamError),
}

impl From<InvalidLogoutToken> for LogoutTokenError {
    fn from(why: InvalidLogoutToken) -> Self {
        Self::Invalid(why)
    }
}

/// What is wrong with a logout token: the first thing that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidLogoutToken {
    /// Over [`TOKEN_BYTES_MAX`](super::TOKEN_BYTES_MAX).
    #[error("too long")]
    TooLong,
    /// Not a compact JWS (RFC 7515 section 7.1) with a header that can be read and names a key.
    #[error("not a compact JWS")]
    Malformed,
    /// The header demands an extension (RFC 7515 section 4.1.11); none is known here.
    #[error("a critical extension")]
    Critical,
    /// Another kind of token (section 2.4).
    #[error("not typed as a logout token")]
    Type,
    /// The IAM has no such key, or had none a moment ago.
    #[error("an unknown key")]
    UnknownKey,
    /// The key is for another algorithm.
    #[error("not the algorithm of the key")]
    Algorithm,
    /// Signed by somebody else, or altered.
    #[error("a wrong signature")]
    Signature,
    /// The claims are not those of a logout token, each of its type and there once.
    #[error("claims missing or of another type")]
    Claims,
    /// Of another issuer.
    #[error("another issuer")]
    Issuer,
    /// Addressed to somebody else.
    #[error("another audience")]
    Audience,
    /// Issued too long ago, or in the future.
    #[error("not issued just now")]
    Time,
    /// Past its `exp`, or before its `nbf`.
    #[error("expired, or not valid yet")]
    Expired,
    /// Tells of no logout.
    #[error("no logout event")]
    Event,
    /// Names neither a session nor a subject.
    #[error("neither sid nor sub")]
    Nobody,
    /// Carries a `nonce`, which only an ID token has.
    #[error("a nonce")]
    Nonce,
    /// Acted on already.
    #[error("a replay")]
    Replayed,
}

impl InvalidLogoutToken {
    /// Every reason there is.
    pub const ALL: [Self; 16] = [
        Self::TooLong,
        Self::Malformed,
        Self::Critical,
        Self::Type,
        Self::UnknownKey,
        Self::Algorithm,
        Self::Signature,
        Self::Claims,
        Self::Issuer,
        Self::Audience,
        Self::Time,
        Self::Expired,
        Self::Event,
        Self::Nobody,
        Self::Nonce,
        Self::Replayed,
    ];

    /// The reason as a short stable name.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Critical => "critical",
            Self::Type => "type",
            Self::UnknownKey => "unknown_key",
            Self::Algorithm => "algorithm",
            Self::Signature => "signature",
            Self::Claims => "claims",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Time => "time",
            Self::Expired => "expired",
            Self::Event => "event",
            Self::Nobody => "nobody",
            Self::Nonce => "nonce",
            Self::Replayed => "replayed",
        }
    }
}
