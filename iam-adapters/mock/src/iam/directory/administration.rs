//! What an administrator sees and does.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::scope::Permissions;
use iam_adapters::types::Subject;
use secrecy::SecretString;

use super::super::sessions::Living;
use super::super::user::{AccountState, User};
use super::super::users::{UserNumber, Users, UsersError};
use super::{Directory, State};

/// A session that has neither ended nor expired. That of a disabled account is one too: it counts
/// again once the account is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSession {
    /// The session's id; without its secret nobody can use it.
    pub id: String,
    /// The address of its user, as it was written.
    pub user: String,
    /// The id of its user.
    pub subject: Subject,
    /// When its user logged in, since 1970-01-01T00:00:00Z, in whole milliseconds.
    pub began_at: Duration,
    /// When it expires, since 1970-01-01T00:00:00Z, in whole milliseconds.
    pub expires_at: Duration,
}

/// What an administrator sees.
impl Directory {
    /// Every user, in no particular order.
    #[must_use]
    pub fn users(&self) -> Vec<Arc<User>> {
        self.read().users.iter().cloned().collect()
    }

    /// Every user with the number of their living sessions, in no particular order. All sessions
    /// are looked at once.
    #[must_use]
    pub fn users_with_sessions(&self) -> Vec<(Arc<User>, usize)> {
        let now = self.clock.now().unix;
        let state = self.read();
        let counts = state.sessions.living_by_user(now);
        let counted = |(number, user): (UserNumber, &Arc<User>)| {
            (
                Arc::clone(user),
                counts.get(&number).copied().unwrap_or_default(),
            )
        };
        state.users.numbers().map(counted).collect()
    }

    /// The user of that address with the number of their living sessions.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn user_with_sessions(&self, email: &str) -> Result<(Arc<User>, usize), UsersError> {
        let now = self.clock.now().unix;
        let state = self.read();
        let (number, user) = state.users.find(email).ok_or(UsersError::Unknown)?;
        let counts = state.sessions.living_by_user(now);
        Ok((user, counts.get(&number).copied().unwrap_or_default()))
    }

    /// The living sessions, the newest first; of those that began in the same millisecond in the
    /// order of their ids.
    #[must_use]
    pub fn sessions(&self) -> Vec<LiveSession> {
        let now = self.clock.now().unix;
        self.read().sessions(now)
    }

    /// How many sessions live.
    #[must_use]
    pub fn living_session_count(&self) -> usize {
        let now = self.clock.now().unix;
        self.read().sessions.living_count(now)
    }

    /// How many sessions are held; some of them may have expired.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.read().sessions.len()
    }
}

/// What an administrator does to users.
impl Directory {
    /// Adds a user.
    ///
    /// # Errors
    ///
    /// [`UsersError::Taken`]; [`UsersError::SubjectTaken`].
    pub fn create_user(&self, user: User) -> Result<(), UsersError> {
        self.write().users.add(user)
    }

    /// Removes a user; their sessions end.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn delete_user(&self, email: &str) -> Result<(), UsersError> {
        let now = self.clock.now().unix;
        let mut state = self.write();
        let removed = state.users.remove(email)?;
        state.sessions.end_where(now, |user| user == removed);
        Ok(())
    }

    /// Puts these users in the place of all others. The sessions of a subject that is there before
    /// and after live on, whatever else is said of that user; all others end.
    pub fn replace_users(&self, users: &Users) {
        let now = self.clock.now().unix;
        let mut state = self.write();
        let users = users.succeeding(&state.users);
        let stays = |number| users.numbered(number).is_some();
        state.sessions.end_where(now, |number| !stays(number));
        state.users = users;
    }

    /// Gives the user another password. Sessions live on.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`]; [`UsersError::Invalid`] where it is empty or too long.
    pub fn set_password(&self, email: &str, password: SecretString) -> Result<(), UsersError> {
        self.write().users.change(email)?.set_password(password)?;
        Ok(())
    }

    /// Makes these the user's permissions, felt by the next introspection.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn set_permissions(&self, email: &str, permissions: Permissions) -> Result<(), UsersError> {
        self.write().users.change(email)?.permissions = permissions;
        Ok(())
    }

    /// Disables, locks or frees an account. A disabled one's sessions count again once it is
    /// active again, unless they have ended meanwhile.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn set_state(&self, email: &str, state: AccountState) -> Result<(), UsersError> {
        self.write().users.change(email)?.state = state;
        Ok(())
    }
}

/// What an administrator does to sessions.
impl Directory {
    /// Ends one session, whoever's it is; whether it lived.
    pub fn end_session_by_id(&self, id: &str) -> bool {
        let now = self.clock.now().unix;
        self.write().sessions.end(id, now)
    }

    /// Ends every session of a user; how many of them lived.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn end_sessions_of(&self, email: &str) -> Result<usize, UsersError> {
        let now = self.clock.now().unix;
        let mut state = self.write();
        let (number, _) = state.users.find(email).ok_or(UsersError::Unknown)?;
        Ok(state.sessions.end_where(now, |user| user == number))
    }

    /// Ends every session; those that lived, as [`Directory::sessions`] told them.
    pub fn end_all_sessions(&self) -> Vec<LiveSession> {
        let now = self.clock.now().unix;
        let mut state = self.write();
        let lived = state.sessions(now);
        state.sessions.end_where(now, |_| true);
        lived
    }
}

impl State {
    fn sessions(&self, now: Duration) -> Vec<LiveSession> {
        let told = |session: Living| {
            let user = self.users.numbered(session.user)?;
            Some(LiveSession {
                id: session.id,
                user: user.email.clone(),
                subject: user.subject.clone(),
                began_at: session.began_at,
                expires_at: session.expires_at,
            })
        };
        let mut sessions: Vec<_> = self.sessions.living(now).filter_map(told).collect();
        sessions.sort_unstable_by(|a, b| {
            (Reverse(a.began_at), &a.id).cmp(&(Reverse(b.began_at), &b.id))
        });
        sessions
    }
}
