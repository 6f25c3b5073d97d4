//! All accounts of the mock.

use std::collections::HashMap;
use std::sync::Arc;

use iam_adapters::types::Subject;
use thiserror::Error;

use super::user::{InvalidUser, User};

/// Which account a session belongs to. Never given twice, so that an account created again under
/// an old address does not inherit its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct UserNumber(pub(super) u64);

/// Whoever has no number: the first user gets 1.
const NOBODY: UserNumber = UserNumber(0);

/// Users, found by their address; upper and lower case are the same in it, as at Keycloak. A clone
/// costs next to nothing until it is changed.
#[derive(Debug, Clone, Default)]
pub struct Users {
    held: Arc<Held>,
    last: u64,
}

#[derive(Debug, Clone, Default)]
struct Held {
    accounts: HashMap<UserNumber, Arc<User>>,
    by_address: HashMap<String, UserNumber>,
    by_subject: HashMap<Subject, UserNumber>,
}

/// Why an administrator's wish cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UsersError {
    /// Nobody has this address.
    #[error("no such user")]
    Unknown,
    /// Somebody has this address already.
    #[error("the address is taken")]
    Taken,
    /// Somebody has this subject already.
    #[error("the subject is taken")]
    SubjectTaken,
    /// There can be no such user.
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
        if self.held.by_address.contains_key(&fold(&user.email)) {
            return Err(UsersError::Taken);
        }
        if self.held.by_subject.contains_key(&user.subject) {
            return Err(UsersError::SubjectTaken);
        }
        self.last += 1;
        Arc::make_mut(&mut self.held).put(UserNumber(self.last), Arc::new(user));
        Ok(())
    }

    /// Every user, in no particular order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.held.accounts.values()
    }

    /// The same users in the place of others: whoever has the subject of one of those has their
    /// number too, and with it their sessions.
    pub(super) fn succeeding(&self, before: &Self) -> Self {
        let mut held = Held::default();
        let mut last = before.last;
        for user in self.iter() {
            let known = before.held.by_subject.get(&user.subject).copied();
            let number = known.unwrap_or_else(|| {
                last += 1;
                UserNumber(last)
            });
            held.put(number, Arc::clone(user));
        }
        Self {
            held: Arc::new(held),
            last,
        }
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = (UserNumber, &Arc<User>)> {
        self.held
            .accounts
            .iter()
            .map(|(number, user)| (*number, user))
    }

    pub(super) fn find(&self, email: &str) -> Option<(UserNumber, Arc<User>)> {
        let number = self.held.by_address.get(&fold(email)).copied();
        // Looked for also where nobody is to be found, so that the time does not tell.
        let number = number.unwrap_or(NOBODY);
        Some((number, Arc::clone(self.numbered(number)?)))
    }

    pub(super) fn numbered(&self, number: UserNumber) -> Option<&Arc<User>> {
        self.held.accounts.get(&number)
    }

    pub(super) fn change(&mut self, email: &str) -> Result<&mut User, UsersError> {
        let known = self.held.by_address.get(&fold(email)).copied();
        let number = known.ok_or(UsersError::Unknown)?;
        let user = Arc::make_mut(&mut self.held).accounts.get_mut(&number);
        user.map(Arc::make_mut).ok_or(UsersError::Unknown)
    }

    pub(super) fn remove(&mut self, email: &str) -> Result<UserNumber, UsersError> {
        let held = Arc::make_mut(&mut self.held);
        let known = held.by_address.remove(&fold(email));
        let number = known.ok_or(UsersError::Unknown)?;
        if let Some(user) = held.accounts.remove(&number) {
            held.by_subject.remove(&user.subject);
        }
        Ok(number)
    }
}

impl Held {
    fn put(&mut self, number: UserNumber, user: Arc<User>) {
        self.by_address.insert(fold(&user.email), number);
        self.by_subject.insert(user.subject.clone(), number);
        self.accounts.insert(number, user);
    }
}

/// The form by which addresses are compared.
pub(super) fn fold(email: &str) -> String {
    email.to_lowercase()
}
