//! Logout tokens: the IAM's signed statement that a session, or all sessions of a user, ended (OpenID
//! Connect Back-Channel Logout 1.0).
//!
//! Anyone can send a logout token. So it is verified with a key that the IAM publishes and with the one
//! algorithm of that key. Nothing in a token selects where a key comes from, except that `iss` chooses
//! among the configured IAMs. No other claim is read before the signature is verified.

mod claims;
mod jws;
mod key_cache;

use std::sync::Arc;

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

use crate::adapter::IamAdapter;
use crate::clock::Clock;
use crate::error::IamError;
use crate::types::Subject;

pub use claims::{AGE_MAX, SKEW_MAX};
pub use jws::verify_signature;

use jws::Jws;
use key_cache::KeyCache;

/// The maximum length of a logout token in bytes. Keycloak's have about 800.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// What ended at the IAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The session with this id (`sid`), also if the token names a subject (`sub`) too.
    Session(String),
    /// All sessions of this user (`sub` without `sid`).
    AllOf(Subject),
}

/// The content of a verified logout token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutNotice {
    /// What ended.
    pub ended: Ended,
    /// When the IAM issued it, in seconds since 1970 by the IAM's clock (`iat`).
    pub issued_at: u64,
    /// Its id, which is unique at the IAM.
    pub jti: String,
}

/// Verifies the logout tokens of one IAM.
#[derive(derive_more::Debug)]
pub struct LogoutTokens {
    audience: String,
    #[debug("{:?}", keys.iam)]
    keys: Arc<KeyCache>,
}

impl LogoutTokens {
    /// Verifies the tokens of this IAM, which is a [`ResilientAdapter`](crate::ResilientAdapter) in the
    /// gateway. `None`: it sends no logout tokens.
    pub fn of(iam: Arc<dyn IamAdapter>, clock: Arc<dyn Clock>) -> Option<Self> {
        let audience = iam.logout_audience()?.to_owned();
        Some(Self {
            keys: Arc::new(KeyCache::new(iam, clock)),
            audience,
        })
    }

    /// Verifies a token (section 2.6). Usually without a call to the IAM: its keys are cached, and
    /// fetched again, with a limited rate, for a token with an unknown key id. Whether the token was used
    /// before is not checked.
    ///
    /// # Errors
    ///
    /// [`LogoutTokenError::Invalid`] if the token is invalid; [`LogoutTokenError::NoKeys`] if it cannot
    /// be verified now.
    pub async fn verify(&self, token: &str) -> Result<LogoutNotice, LogoutTokenError> {
        let jws = Jws::parse(token)?;
        let keys = self.keys.containing(&jws.key_id).await?;
        let claims = jws.verify(&keys)?;
        let (issuer, now) = (self.keys.iam.issuer(), self.keys.clock.now());
        Ok(claims::check(&claims, issuer, &self.audience, now)?)
    }
}

/// The issuer that a token names (`iss`), to choose the IAM that verifies it. Nothing is verified here.
///
/// # Errors
///
/// [`InvalidLogoutToken`] if the token is not a logout token, or names no issuer.
pub fn unverified_issuer(token: &str) -> Result<String, InvalidLogoutToken> {
    claims::issuer(&Jws::parse(token)?.unverified_payload()?)
}

/// Why a logout token was not accepted. The messages are for the log, and contain nothing of the token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogoutTokenError {
    /// The token is invalid, and will stay invalid.
    #[error("invalid logout token")]
    Invalid(#[from] InvalidLogoutToken),
    /// The IAM's keys are not available now, so the token could not be verified.
    #[error("no keys to verify a logout token with")]
    NoKeys(#[source] IamError),
}

/// The first error that was found in a logout token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum InvalidLogoutToken {
    /// Over [`TOKEN_BYTES_MAX`].
    #[error("too long")]
    TooLong,
    /// Not a compact JWS (RFC 7515 section 7.1) with a readable header that names a key.
    #[error("not a compact JWS")]
    Malformed,
    /// The header requires an extension (RFC 7515 section 4.1.11); none is supported.
    #[error("a critical extension")]
    Critical,
    /// Another type of token (section 2.4).
    #[error("not typed as a logout token")]
    Type,
    /// The IAM has no such key, or had none at the last fetch.
    #[error("an unknown key")]
    UnknownKey,
    /// The key is for another algorithm.
    #[error("not the algorithm of the key")]
    Algorithm,
    /// Signed with another key, or altered.
    #[error("a wrong signature")]
    Signature,
    /// A claim is missing, repeated or of the wrong type.
    #[error("claims missing or of another type")]
    Claims,
    /// Of another issuer.
    #[error("another issuer")]
    Issuer,
    /// For another audience.
    #[error("another audience")]
    Audience,
    /// Issued too long ago, or in the future.
    #[error("not issued just now")]
    Time,
    /// Past its `exp`, or before its `nbf`.
    #[error("expired, or not valid yet")]
    Expired,
    /// Without the logout event.
    #[error("no logout event")]
    Event,
    /// Without `sid` and `sub`.
    #[error("neither sid nor sub")]
    NoSubject,
    /// With a `nonce`, which only ID tokens have.
    #[error("a nonce")]
    Nonce,
    /// Already used.
    #[error("a replay")]
    Replayed,
}

#[cfg(test)]
mod tests;
