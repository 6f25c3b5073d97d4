//! One account of the mock.

use aws_lc_rs::digest::{SHA256, digest};
use iam_adapters::scope::Permissions;
use iam_adapters::types::{Credentials, Subject};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::users::fold;

/// What the administrator of an IAM made of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// In use.
    #[default]
    Active,
    /// Switched off: no login, and no session of it counts.
    Disabled,
    /// No login for a while, with the right password either; living sessions live on.
    Locked,
    /// Something is left to do at the IAM, which it tells those alone who know the password.
    Incomplete,
}

/// One account of the mock.
#[derive(Debug, Clone)]
pub struct User {
    pub(super) email: String,
    pub(super) password: SecretString,
    pub(super) permissions: Permissions,
    pub(super) state: AccountState,
    pub(super) subject: Subject,
}

impl User {
    /// An active account with a subject that follows from its address.
    ///
    /// # Errors
    ///
    /// [`InvalidUser`] where nobody could log in with such an address and password.
    pub fn new(
        email: impl Into<String>,
        password: SecretString,
        permissions: Permissions,
    ) -> Result<Self, InvalidUser> {
        let email = email.into();
        if password.expose_secret().is_empty() {
            return Err(InvalidUser("the password is empty".to_owned()));
        }
        let credentials = Credentials::new(email.clone(), password.clone())
            .map_err(|invalid| InvalidUser(invalid.to_string()))?;
        let subject = subject_of(credentials.email())
            .ok_or_else(|| InvalidUser("no subject could be made".to_owned()))?;
        Ok(Self {
            email,
            password,
            permissions,
            state: AccountState::default(),
            subject,
        })
    }

    /// The same account under an id of its own choice.
    #[must_use]
    pub fn with_subject(self, subject: Subject) -> Self {
        Self { subject, ..self }
    }

    /// The same account as an administrator left it.
    #[must_use]
    pub fn with_state(self, state: AccountState) -> Self {
        Self { state, ..self }
    }

    pub(super) fn set_password(&mut self, password: SecretString) -> Result<(), InvalidUser> {
        self.password = Self::new(self.email.as_str(), password, Permissions::default())?.password;
        Ok(())
    }

    /// The address, as it was written.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }

    /// The id that never changes.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// What the user may do.
    #[must_use]
    pub const fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// What the administrator made of the account.
    #[must_use]
    pub const fn state(&self) -> AccountState {
        self.state
    }
}

/// Why there can be no such user. Never holds the password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct InvalidUser(pub(super) String);

/// A UUID (version 8, RFC 9562 section 5.8) that follows from the address, so that a user keeps it
/// over restarts and has it on every replica.
fn subject_of(email: &str) -> Option<Subject> {
    let hash = digest(&SHA256, fold(email).as_bytes());
    let (head, _) = hash.as_ref().split_first_chunk::<16>()?;
    let bits = u128::from_be_bytes(*head);
    let bits = bits & !(0xF << 76) | (0x8 << 76);
    let bits = bits & !(0x3 << 62) | (0x2 << 62);
    Subject::new(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        bits >> 96,
        bits >> 80 & 0xFFFF,
        bits >> 64 & 0xFFFF,
        bits >> 48 & 0xFFFF,
        bits & 0xFFFF_FFFF_FFFF,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_follows_from_the_address_and_looks_like_a_uuid() {
        let subject = |email: &str| {
            let user = User::new(email, "x".into(), Permissions::default()).expect("user");
            user.subject().as_str().to_owned()
        };
        // Written down, because a subject that changes between releases is another user.
        assert_eq!(
            subject("alice@example.test"),
            "69b1145a-0333-8875-961e-a18c1373b570"
        );
        assert_eq!(subject("ALICE@example.test"), subject("alice@example.test"));
        assert_ne!(subject("bob@example.test"), subject("alice@example.test"));
    }

    #[test]
    fn a_user_needs_an_address_and_a_password() {
        for (email, password) in [("a@b", ""), ("alice", "x"), ("", "x")] {
            assert!(
                User::new(email, password.into(), Permissions::default()).is_err(),
                "{email:?}"
            );
        }
    }
}
