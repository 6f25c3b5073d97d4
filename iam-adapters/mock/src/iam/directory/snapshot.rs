//! An IAM as it was at one moment.

use std::fmt;

use super::super::sessions::Sessions;
use super::super::users::Users;
use super::{Directory, State};

/// The users, passwords among them, and the sessions of a [`Directory`]. Opaque: what is in it
/// leaves only into a directory.
#[derive(Clone)]
pub struct DirectorySnapshot {
    users: Users,
    sessions: Sessions,
}

impl Directory {
    /// Everything as it is now.
    #[must_use]
    pub fn snapshot(&self) -> DirectorySnapshot {
        let state = self.read();
        DirectorySnapshot {
            users: state.users.clone(),
            sessions: state.sessions.clone(),
        }
    }

    /// Makes users and sessions what they were. Sessions that have ended since live again, for as
    /// long as they had been promised by the clock; those begun since have ended.
    pub fn restore(&self, snapshot: &DirectorySnapshot) {
        // Copied before anybody has to wait for it.
        let DirectorySnapshot { users, sessions } = snapshot.clone();
        *self.write() = State { users, sessions };
    }
}

/// Shows how much there is, and nobody's address.
impl fmt::Debug for DirectorySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectorySnapshot")
            .field("users", &self.users.iter().len())
            .field("sessions", &self.sessions)
            .finish()
    }
}
