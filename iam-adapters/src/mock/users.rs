//! All accounts of the mock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use thiserror::Error;

use super::user::{InvalidUser, User};

/// Which account a session belongs to. Never given twice, so that an account created again under
/// an old address does not inherit its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct UserNumber(pub(super) u64);

/// Whoever has no number: the first user gets 1.
const NOBODY: UserNumber = UserNumber(0);

/// Users, found by their address; upper and lower case are the same in it, as at Keycloak.
#[derive(Debug, Clone, Default)]
pub struct Users {
    by_number: HashMap<UserNumber, Arc<User>>,
    by_address: HashMap<String, UserNumber>,
    last: u64,
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
    /// There can be no such user.
    #[error(transparent)]
    Invalid(#[from] InvalidUser),
}

impl Users {
    /// Adds a user.
    ///
    /// # Errors
    ///
    /// [`UsersError::Taken`].
    pub fn add(&mut self, user: User) -> Result<(), UsersError> {
        match self.by_address.entry(fold(&user.email)) {
            Entry::Occupied(_) => Err(UsersError::Taken),
            Entry::Vacant(free) => {
                self.last += 1;
                let number = *free.insert(UserNumber(self.last));
                self.by_number.insert(number, Arc::new(user));
                Ok(())
            }
        }
    }

    /// Every user, in no particular order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.by_number.values()
    }

    pub(super) fn find(&self, email: &str) -> Option<(UserNumber, Arc<User>)> {
        let number = self.by_address.get(&fold(email)).copied();
        // Looked for also where nobody is to be found, so that the time does not tell.
        let number = number.unwrap_or(NOBODY);
        Some((number, self.numbered(number)?))
    }

    pub(super) fn numbered(&self, number: UserNumber) -> Option<Arc<User>> {
        self.by_number.get(&number).cloned()
    }

    pub(super) fn change(&mut self, email: &str) -> Result<&mut User, UsersError> {
        self.by_address
            .get(&fold(email))
            .and_then(|number| self.by_number.get_mut(number))
            .map(Arc::make_mut)
            .ok_or(UsersError::Unknown)
    }

    pub(super) fn remove(&mut self, email: &str) -> Result<UserNumber, UsersError> {
        let number = self
            .by_address
            .remove(&fold(email))
            .ok_or(UsersError::Unknown)?;
        self.by_number.remove(&number);
        Ok(number)
    }
}

/// The form by which addresses are compared.
pub(super) fn fold(email: &str) -> String {
    email.to_lowercase()
}
