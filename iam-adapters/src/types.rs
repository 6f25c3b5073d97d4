//! The words that the gateway and every adapter share.

use std::fmt;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

use crate::client_address::ClientAddress;
use crate::scope::Permissions;

/// The longest e-mail address accepted, in bytes: 64 for the local part, the `@`, 255 for the
/// domain (RFC 5321 section 4.5.3.1).
pub const EMAIL_MAX: usize = 320;

/// The longest password accepted, in bytes. Generous (64 characters of 4 bytes fit four times
/// over), and bounded because the IAM hashes whatever it is sent.
pub const PASSWORD_MAX: usize = 1024;

/// An e-mail address and a password, exactly as the user sent them.
///
/// Neither is trimmed, folded or normalised: that is for the IAM to do or not to do.
#[derive(Clone)]
pub struct Credentials {
    email: String,
    password: SecretString,
}

impl Credentials {
    /// Takes both as they are.
    ///
    /// # Errors
    ///
    /// [`InvalidCredentials`] where the address has not the shape of one, or either is too long.
    /// An empty password is fine here; [`Credentials::has_empty_password`] tells.
    pub fn new(email: String, password: SecretString) -> Result<Self, InvalidCredentials> {
        let mut parts = email.split('@');
        let shaped = parts.next().is_some_and(|local| !local.is_empty())
            && parts.next().is_some_and(|domain| !domain.is_empty())
            && parts.next().is_none();
        if email.len() > EMAIL_MAX {
            return Err(InvalidCredentials::EmailTooLong);
        }
        if !shaped || email.chars().any(char::is_control) {
            return Err(InvalidCredentials::Email);
        }
        if password.expose_secret().len() > PASSWORD_MAX {
            return Err(InvalidCredentials::PasswordTooLong);
        }
        Ok(Self { email, password })
    }

    /// The address as it was sent.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }

    /// The password as it was sent.
    #[must_use]
    pub fn password(&self) -> &SecretString {
        &self.password
    }

    /// Whether the password is empty. Some directories let anybody in with an empty one (RFC 4513
    /// section 5.1.2), so the gateway never passes it on.
    #[must_use]
    pub fn has_empty_password(&self) -> bool {
        self.password.expose_secret().is_empty()
    }
}

/// Shows neither: an e-mail address is personal data, and no log needs it.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials([REDACTED])")
    }
}

/// Why a pair of strings cannot be credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidCredentials {
    /// Not exactly one `@` with something on both sides, or a control character.
    #[error("not an e-mail address")]
    Email,
    /// Over [`EMAIL_MAX`] bytes.
    #[error("the e-mail address is too long")]
    EmailTooLong,
    /// Over [`PASSWORD_MAX`] bytes. Never cut: a cut password would be another one.
    #[error("the password is too long")]
    PasswordTooLong,
}

/// What the gateway knows of the client on whose behalf it calls.
#[derive(Debug, Clone, Default)]
pub struct ClientContext {
    /// The client's address, for the IAM's own defences and audit.
    pub address: Option<ClientAddress>,
    /// The id of the request, the same as in the gateway's log.
    pub request_id: String,
}

/// The immutable id of a user at the IAM; never the e-mail address, which may change hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject(String);

impl Subject {
    /// Takes the id as the IAM gave it; none where it is empty.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Option<Self> {
        let id = id.into();
        (!id.is_empty()).then_some(Self(id))
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The IAM's own session, as the gateway carries it inside the sealed session token.
#[derive(Debug, Clone)]
pub struct UpstreamSession {
    /// Whose session it is.
    pub subject: Subject,
    /// The IAM's id of it (OIDC: `sid`).
    pub id: String,
    /// What proves it to the IAM (Keycloak: the refresh token).
    pub secret: SecretString,
}

/// A login that succeeded.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// The session that the IAM began.
    pub session: UpstreamSession,
    /// How long the IAM promises it to live, counted from the call; none: without end.
    pub expires_in: Option<Duration>,
    /// What the user may do, where the IAM told already; then the first token costs no call.
    pub permissions: Option<Permissions>,
}

/// The IAM's word on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Introspection {
    /// Ended, expired, or its user may no longer use it.
    Inactive,
    /// Alive.
    Active {
        /// Whose session it is.
        subject: Subject,
        /// What the user may do now.
        permissions: Permissions,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(email: &str, password: &str) -> Result<Credentials, InvalidCredentials> {
        Credentials::new(email.to_owned(), password.into())
    }

    #[test]
    fn an_address_needs_one_at_sign_with_something_on_both_sides() {
        for email in [
            "",
            "alice",
            "@",
            "alice@",
            "@example.test",
            "a@b@c",
            "a\0@b",
            "a@b\n",
        ] {
            assert_eq!(
                credentials(email, "x").err(),
                Some(InvalidCredentials::Email),
                "{email:?}"
            );
        }
        assert!(credentials("álice+1@exämple.test", "x").is_ok());
    }

    #[test]
    fn lengths_are_bounded_and_nothing_is_cut() {
        let longest = format!("{}@b", "a".repeat(EMAIL_MAX - 2));
        assert_eq!(
            credentials(&longest, "x").map(|c| c.email().len()).ok(),
            Some(EMAIL_MAX)
        );
        assert_eq!(
            credentials(&format!("a{longest}"), "x").err(),
            Some(InvalidCredentials::EmailTooLong)
        );
        assert!(credentials("a@b", &"x".repeat(PASSWORD_MAX)).is_ok());
        assert_eq!(
            credentials("a@b", &"x".repeat(PASSWORD_MAX + 1)).err(),
            Some(InvalidCredentials::PasswordTooLong)
        );
    }

    #[test]
    fn debug_shows_neither_address_nor_password_nor_session_secret() {
        let shown = format!("{:?}", credentials("alice@example.test", "canary").ok());
        assert!(
            !shown.contains("alice") && !shown.contains("canary"),
            "{shown}"
        );
        let session = UpstreamSession {
            subject: Subject("s".to_owned()),
            id: "i".to_owned(),
            secret: "canary".into(),
        };
        assert!(!format!("{session:?}").contains("canary"));
    }
}
