//! The accounts of the mock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use iam_adapters::scope::Permissions;
use iam_adapters::types::{Credentials, Subject};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::lockout::{Failures, Lockout};
use super::totp::TotpVerifier;

/// The state of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// The user can log in.
    #[default]
    Active,
    /// No login, and its sessions are inactive.
    Disabled,
    /// No login, even with the right password; sessions stay active.
    Locked,
    /// No login until the user completes a step at the IAM. Visible only with the right password.
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
    pub(super) attributes: Map<String, Value>,
    pub(super) totp: Option<TotpVerifier>,
    pub(super) failures: Failures,
}

impl User {
    /// An active account with a subject that is derived from its address.
    ///
    /// # Errors
    ///
    /// [`InvalidUser`] if no login with this address and password is possible.
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
            attributes: Map::new(),
            totp: None,
            failures: Failures::default(),
        })
    }

    /// Requires a one-time password at each login, or none.
    #[must_use]
    pub fn with_totp(self, totp: Option<TotpVerifier>) -> Self {
        Self { totp, ..self }
    }

    /// Sets the attributes.
    #[must_use]
    pub fn with_attributes(self, attributes: Map<String, Value>) -> Self {
        Self { attributes, ..self }
    }

    /// Sets the subject.
    #[must_use]
    pub fn with_subject(self, subject: Subject) -> Self {
        Self { subject, ..self }
    }

    /// Sets the state.
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

    /// The user id.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The permissions.
    #[must_use]
    pub const fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Further members of introspection responses, of which claims are made.
    #[must_use]
    pub const fn attributes(&self) -> &Map<String, Value> {
        &self.attributes
    }

    /// What verifies the one-time passwords; `None`: a login needs none.
    #[must_use]
    pub const fn totp(&self) -> Option<&TotpVerifier> {
        self.totp.as_ref()
    }

    /// The state that an administrator set.
    #[must_use]
    pub const fn state(&self) -> AccountState {
        self.state
    }

    /// The state at this time since 1970: an active account is locked while a lock-out lasts.
    #[must_use]
    pub fn state_at(&self, now: Duration) -> AccountState {
        match self.state {
            AccountState::Active if self.failures.lock_out(now) => AccountState::Locked,
            state => state,
        }
    }
}

/// Why a user is invalid. Never contains the password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct InvalidUser(pub(super) String);

/// A UUID (version 8, RFC 9562 section 5.8) that is derived from the address, so that it is the same
/// after a restart and on every replica.
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

/// The account of a session. A number is never reused, so an account that is created again with the
/// same address does not inherit sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct UserNumber(pub(super) u64);

/// No user: the first user gets 1.
const NO_USER: UserNumber = UserNumber(0);

/// Users by address, which is case-insensitive, as at Keycloak. Copy-on-write.
#[derive(Debug, Clone, Default)]
pub struct Users {
    tables: Arc<Tables>,
    last: u64,
}

#[derive(Debug, Clone, Default)]
struct Tables {
    accounts: HashMap<UserNumber, Arc<User>>,
    by_address: HashMap<String, UserNumber>,
    by_subject: HashMap<Subject, UserNumber>,
}

/// Why an administrative operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UsersError {
    /// There is no user with this address.
    #[error("no such user")]
    Unknown,
    /// Another user has this address.
    #[error("the address is taken")]
    Taken,
    /// Another user has this subject.
    #[error("the subject is taken")]
    SubjectTaken,
    /// The user is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidUser),
}

impl Users {
    /// Adds a user.
    ///
    /// # Errors
    ///
    /// [`UsersError::Taken`]; [`UsersError::SubjectTaken`].
    pub fn add(&mut self, user: User) -> Result<(), UsersError> {
        if self.tables.by_address.contains_key(&fold(&user.email)) {
            return Err(UsersError::Taken);
        }
        if self.tables.by_subject.contains_key(&user.subject) {
            return Err(UsersError::SubjectTaken);
        }
        self.last += 1;
        Arc::make_mut(&mut self.tables).put(UserNumber(self.last), Arc::new(user));
        Ok(())
    }

    /// Every user, in no particular order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.tables.accounts.values()
    }

    /// These users as the successors of others: a user with the subject of a previous one keeps its
    /// number, and with it its sessions.
    pub(super) fn succeeding(&self, before: &Self) -> Self {
        let mut tables = Tables::default();
        let mut last = before.last;
        for user in self.iter() {
            let known = before.tables.by_subject.get(&user.subject).copied();
            let number = known.unwrap_or_else(|| {
                last += 1;
                UserNumber(last)
            });
            tables.put(number, Arc::clone(user));
        }
        Self {
            tables: Arc::new(tables),
            last,
        }
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = (UserNumber, &Arc<User>)> {
        self.tables
            .accounts
            .iter()
            .map(|(number, user)| (*number, user))
    }

    pub(super) fn find(&self, email: &str) -> Option<(UserNumber, Arc<User>)> {
        let number = self.tables.by_address.get(&fold(email)).copied();
        // Look up an unknown user as well, so that the response time is the same.
        let number = number.unwrap_or(NO_USER);
        Some((number, Arc::clone(self.numbered(number)?)))
    }

    pub(super) fn numbered(&self, number: UserNumber) -> Option<&Arc<User>> {
        self.tables.accounts.get(&number)
    }

    pub(super) fn change(&mut self, email: &str) -> Result<&mut User, UsersError> {
        let known = self.tables.by_address.get(&fold(email)).copied();
        let number = known.ok_or(UsersError::Unknown)?;
        let user = Arc::make_mut(&mut self.tables).accounts.get_mut(&number);
        user.map(Arc::make_mut).ok_or(UsersError::Unknown)
    }

    /// Notes the result of a login, by which accounts are locked out.
    pub(super) fn note_login(
        &mut self,
        number: UserNumber,
        succeeded: bool,
        now: Duration,
        lockout: Lockout,
    ) {
        let user = Arc::make_mut(&mut self.tables).accounts.get_mut(&number);
        if let Some(user) = user.map(Arc::make_mut) {
            user.failures = if succeeded {
                Failures::default()
            } else {
                user.failures.and_another(now, lockout)
            };
        }
    }

    /// Forgets the failed logins of all users, and with them their lock-outs.
    pub(super) fn forget_failures(&mut self) {
        let users = Arc::make_mut(&mut self.tables).accounts.values_mut();
        for user in users.filter(|user| user.failures != Failures::default()) {
            Arc::make_mut(user).failures = Failures::default();
        }
    }

    pub(super) fn accept_otp(&mut self, number: UserNumber, step: u64) {
        let user = Arc::make_mut(&mut self.tables).accounts.get_mut(&number);
        if let Some(totp) = user.and_then(|user| Arc::make_mut(user).totp.as_mut()) {
            totp.accept(step);
        }
    }

    pub(super) fn remove(&mut self, email: &str) -> Result<UserNumber, UsersError> {
        let tables = Arc::make_mut(&mut self.tables);
        let known = tables.by_address.remove(&fold(email));
        let number = known.ok_or(UsersError::Unknown)?;
        if let Some(user) = tables.accounts.remove(&number) {
            tables.by_subject.remove(&user.subject);
        }
        Ok(number)
    }
}

impl Tables {
    fn put(&mut self, number: UserNumber, user: Arc<User>) {
        self.by_address.insert(fold(&user.email), number);
        self.by_subject.insert(user.subject.clone(), number);
        self.accounts.insert(number, user);
    }
}

/// The form of an address for comparison.
pub(super) fn fold(email: &str) -> String {
    email.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_a_uuid_derived_from_the_address() {
        let subject = |email: &str| {
            let user = User::new(email, "x".into(), Permissions::default()).expect("user");
            user.subject().as_str().to_owned()
        };
        // A literal, because a subject that changes between releases is another user.
        assert_eq!(
            subject("alice@example.test"),
            "69b1145a-0333-8875-961e-a18c1373b570"
        );
        assert_eq!(subject("ALICE@example.test"), subject("alice@example.test"));
        assert_ne!(subject("bob@example.test"), subject("alice@example.test"));
    }

    #[test]
    fn user_without_address_or_password_is_invalid() {
        for (email, password) in [("a@b", ""), ("alice", "x"), ("", "x")] {
            assert!(
                User::new(email, password.into(), Permissions::default()).is_err(),
                "{email:?}"
            );
        }
    }
}
