//! The types that the gateway and the adapters share.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

use crate::claims::Claims;
use crate::client_address::ClientAddress;
use crate::scope::Permissions;

/// The maximum length of an e-mail address in bytes: 64 for the local part, the `@`, 255 for the
/// domain (RFC 5321 section 4.5.3.1).
pub const EMAIL_MAX: usize = 320;

/// The maximum length of a password in bytes. Four times 64 characters of 4 bytes; bounded because the
/// IAM hashes every password that it receives.
pub const PASSWORD_MAX: usize = 1024;

/// The maximum length of a one-time password in bytes. That of RFC 6238 has up to 10 digits; other kinds
/// have some tens of characters.
pub const OTP_MAX: usize = 64;

/// An e-mail address, a password and perhaps a one-time password, exactly as the user sent them.
///
/// None is trimmed, case-folded or normalised; the IAM decides about that. The `Debug` form is redacted: an e-mail
/// address is personal data, and no log needs it.
#[derive(Clone, derive_more::Debug)]
#[debug("Credentials([REDACTED])")]
pub struct Credentials {
    email: String,
    password: SecretString,
    otp: Option<SecretString>,
}

impl Credentials {
    /// Checks the format of the address and the lengths.
    ///
    /// # Errors
    ///
    /// [`InvalidCredentials`] if the address is not an e-mail address, or either is too long. An empty
    /// password is no error here; see [`Credentials::has_empty_password`].
    pub fn new(email: String, password: SecretString) -> Result<Self, InvalidCredentials> {
        let mut parts = email.split('@');
        let has_two_parts = parts.next().is_some_and(|local| !local.is_empty())
            && parts.next().is_some_and(|domain| !domain.is_empty())
            && parts.next().is_none();
        if email.len() > EMAIL_MAX {
            return Err(InvalidCredentials::EmailTooLong);
        }
        if !has_two_parts || email.chars().any(char::is_control) {
            return Err(InvalidCredentials::Email);
        }
        if password.expose_secret().len() > PASSWORD_MAX {
            return Err(InvalidCredentials::PasswordTooLong);
        }
        Ok(Self {
            email,
            password,
            otp: None,
        })
    }

    /// Sets the one-time password, if there is one. Checks its length and its characters.
    ///
    /// # Errors
    ///
    /// [`InvalidCredentials`] if it is empty, too long, or has a control character.
    pub fn with_otp(self, otp: Option<SecretString>) -> Result<Self, InvalidCredentials> {
        match otp.as_ref().map(ExposeSecret::expose_secret) {
            Some("") => Err(InvalidCredentials::OtpEmpty),
            Some(text) if text.len() > OTP_MAX => Err(InvalidCredentials::OtpTooLong),
            Some(text) if text.chars().any(char::is_control) => {
                Err(InvalidCredentials::OtpControlCharacter)
            }
            _ => Ok(Self { otp, ..self }),
        }
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

    /// The one-time password as it was sent, if there is one.
    #[must_use]
    pub const fn otp(&self) -> Option<&SecretString> {
        self.otp.as_ref()
    }

    /// Whether the password is empty. Some directories accept every user with an empty password
    /// (RFC 4513 section 5.1.2), so the gateway never sends it to the IAM.
    #[must_use]
    pub fn has_empty_password(&self) -> bool {
        self.password.expose_secret().is_empty()
    }
}

/// Why texts are not valid credentials. Each message begins with the name of the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidCredentials {
    /// Not exactly one `@` with something on both sides, or a control character.
    #[error("`email` is not an e-mail address")]
    Email,
    /// Over [`EMAIL_MAX`] bytes.
    #[error("`email` is longer than {EMAIL_MAX} bytes")]
    EmailTooLong,
    /// Over [`PASSWORD_MAX`] bytes. Never truncated: a truncated password is another password.
    #[error("`password` is longer than {PASSWORD_MAX} bytes")]
    PasswordTooLong,
    /// A one-time password of no characters.
    #[error("`otp` must not be empty")]
    OtpEmpty,
    /// Over [`OTP_MAX`] bytes.
    #[error("`otp` is longer than {OTP_MAX} bytes")]
    OtpTooLong,
    /// A one-time password with a control character.
    #[error("`otp` has a control character")]
    OtpControlCharacter,
}

/// The client on whose behalf the gateway calls the IAM.
#[derive(Debug, Clone, Default)]
pub struct ClientContext {
    /// The client's address, for the IAM's brute-force protection and audit log.
    pub address: Option<ClientAddress>,
    /// The id of the request, as in the gateway's log.
    pub request_id: String,
}

/// The immutable id of a user at the IAM. Not the e-mail address, which may pass to another user.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject(String);

impl Subject {
    /// The id as the IAM returned it; `None` if it is empty.
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

/// The IAM's session, as it is stored in the sealed session token.
#[derive(Debug, Clone)]
pub struct UpstreamSession {
    /// The user of the session.
    pub subject: Subject,
    /// The IAM's id of the session (OIDC: `sid`).
    pub id: String,
    /// The credential of the session at the IAM (Keycloak: the refresh token).
    pub secret: SecretString,
}

/// A successful login.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// The new session of the IAM.
    pub session: UpstreamSession,
    /// The lifetime of the session, counted from the call; `None`: unlimited.
    pub expires_in: Option<Duration>,
    /// The permissions of the user, if the IAM returned them; then the first exchange makes no call.
    pub permissions: Option<Permissions>,
    /// The groups of the user, as in [`Introspection::Active`].
    pub groups: Option<Vec<String>>,
    /// The claims of the user, if there are `permissions`.
    pub claims: Claims,
}

/// The IAM's statement about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Introspection {
    /// Ended, expired, or no longer permitted to its user.
    Inactive,
    /// Active.
    Active {
        /// The user of the session.
        subject: Subject,
        /// The permissions of the user now.
        permissions: Permissions,
        /// The names of the user's groups now, for a
        /// [`PermissionSource`](crate::permission_source::PermissionSource); `None` if the IAM does
        /// not state them.
        groups: Option<Vec<String>>,
        /// The claims of the user's access tokens now.
        claims: Claims,
    },
}

/// What the IAM states about the user of an active session, as the gateway caches it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserData {
    /// The permissions.
    pub permissions: Permissions,
    /// The claims of access tokens.
    pub claims: Claims,
}

impl UserData {
    /// Their size on the heap in bytes, for the weight of a cache entry.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.permissions.heap_size() + self.claims.heap_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(email: &str, password: &str) -> Result<Credentials, InvalidCredentials> {
        Credentials::new(email.to_owned(), password.into())
    }

    #[test]
    fn email_address_needs_one_at_sign_between_two_parts() {
        for email in [
            "",
            "alice",
            "@",
            "alice@",
            "@example.test",
            "a@b@c",
            "a\0@b",
            "a@b\n",
            "a\u{9b}@b",
            "\u{7f}a@b",
            "ａ＠b",
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
    fn lengths_are_bounded_and_nothing_is_truncated() {
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
    fn one_time_password_has_up_to_64_bytes_and_no_control_character() {
        let with_otp = |otp: &str| credentials("a@b", "x").unwrap().with_otp(Some(otp.into()));
        for otp in ["0", "755 224", "é", &"9".repeat(OTP_MAX)] {
            let credentials = with_otp(otp).unwrap();
            assert_eq!(credentials.otp().unwrap().expose_secret(), otp);
        }
        for (otp, why) in [
            ("", InvalidCredentials::OtpEmpty),
            (&"9".repeat(OTP_MAX + 1), InvalidCredentials::OtpTooLong),
            (&"é".repeat(33), InvalidCredentials::OtpTooLong),
            ("755224\n", InvalidCredentials::OtpControlCharacter),
            ("\u{9b}", InvalidCredentials::OtpControlCharacter),
        ] {
            assert_eq!(with_otp(otp).err(), Some(why), "{otp:?}");
        }
    }

    #[test]
    fn debug_shows_neither_address_nor_password_nor_session_secret() {
        let credentials = credentials("alice@example.test", "canary");
        let credentials = credentials.and_then(|it| it.with_otp(Some("canary".into())));
        let shown = format!("{:?}", credentials.ok());
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
