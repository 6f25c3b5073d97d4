//! The IAM behind the mock: users, sessions, and what an administrator does to them.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::sessions::Sessions;
use super::signer::LogoutSigner;
use super::user::{AccountState, User};
use super::users::{Users, UsersError};
use super::{CLIENT, ISSUER};
use crate::clock::Clock;
use crate::error::{IamError, Refusal};
use crate::logout_token::VerificationKeys;
use crate::scope::Permissions;
use crate::types::{Authenticated, Credentials, Introspection, Subject, UpstreamSession};

/// An IAM in memory. Users are found by their address, upper and lower case being the same.
pub struct Directory {
    clock: Arc<dyn Clock>,
    session_lifetime: Duration,
    /// None: the machine had no randomness for a key.
    signer: Option<LogoutSigner>,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    users: Users,
    sessions: Sessions,
}

/// What users do.
impl Directory {
    /// An IAM with these users, whose sessions live as long as given.
    #[must_use]
    pub fn new(users: Users, session_lifetime: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            session_lifetime,
            signer: LogoutSigner::generate(),
            state: RwLock::new(State {
                users,
                sessions: Sessions::new(),
            }),
        }
    }

    /// Verifies the credentials and begins a session.
    ///
    /// # Errors
    ///
    /// [`IamError::Refused`]; [`IamError::Failed`] where the machine has no randomness.
    pub fn authenticate(&self, credentials: &Credentials) -> Result<Authenticated, IamError> {
        let now = self.clock.now().unix;
        let mut state = self.write();
        let found = state.users.find(credentials.email());
        let user = found.as_ref().map(|(_, user)| &**user);
        may_log_in(user, credentials.password()).map_err(IamError::Refused)?;
        let (number, user) = found.ok_or(IamError::Refused(Refusal::InvalidCredentials))?;
        let (id, secret) = state
            .sessions
            .begin(number, now, self.session_lifetime)
            .ok_or_else(|| IamError::Failed("no randomness".to_owned()))?;
        drop(state);
        Ok(Authenticated {
            session: UpstreamSession {
                subject: user.subject.clone(),
                id,
                secret,
            },
            expires_in: Some(self.session_lifetime),
            permissions: Some(user.permissions.clone()),
        })
    }

    /// Whether the session is alive, and what its user may do now.
    #[must_use]
    pub fn introspect(&self, session: &UpstreamSession) -> Introspection {
        match self.user_of(session) {
            Some(user) if user.state != AccountState::Disabled => Introspection::Active {
                subject: user.subject.clone(),
                permissions: user.permissions.clone(),
            },
            Some(_) | None => Introspection::Inactive,
        }
    }

    /// Ends the session, where the secret is its own. One that is not alive is left as it is.
    pub fn end_session(&self, session: &UpstreamSession) {
        let now = self.clock.now().unix;
        let mut state = self.write();
        if state
            .sessions
            .alive(&session.id, &session.secret, now)
            .is_some()
        {
            state.sessions.end(&session.id);
        }
    }

    /// The keys for the logout tokens.
    ///
    /// # Errors
    ///
    /// [`IamError::Failed`] where the machine had no randomness at the start.
    pub fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let keys = self.signer.as_ref().and_then(LogoutSigner::keys);
        keys.ok_or_else(|| IamError::Failed("no randomness".to_owned()))
    }

    /// The time by the IAM's clock, since 1970-01-01T00:00:00Z.
    pub(super) fn now(&self) -> Duration {
        self.clock.now().unix
    }

    /// The address of the user whose session it is, whether it is alive or not.
    pub(super) fn address_of(&self, session: &UpstreamSession) -> Option<String> {
        let alive = self.user_of(session);
        let user = alive.or_else(|| {
            let state = self.read();
            let mut users = state.users.iter();
            users.find(|user| user.subject == session.subject).cloned()
        });
        user.map(|user| user.email.clone())
    }

    fn user_of(&self, session: &UpstreamSession) -> Option<Arc<User>> {
        let now = self.clock.now().unix;
        let state = self.read();
        let number = state.sessions.alive(&session.id, &session.secret, now)?;
        state.users.numbered(number)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an administrator does.
impl Directory {
    /// Every user, in no particular order.
    #[must_use]
    pub fn users(&self) -> Vec<Arc<User>> {
        self.read().users.iter().cloned().collect()
    }

    /// How many sessions are held; some of them may have expired.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.read().sessions.len()
    }

    /// Adds a user.
    ///
    /// # Errors
    ///
    /// [`UsersError::Taken`].
    pub fn create_user(&self, user: User) -> Result<(), UsersError> {
        self.write().users.add(user)
    }

    /// Removes a user; their sessions end.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn delete_user(&self, email: &str) -> Result<(), UsersError> {
        let mut state = self.write();
        let number = state.users.remove(email)?;
        state.sessions.end_all_of(number);
        Ok(())
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

    /// Ends one session, whoever's it is; whether it was there.
    pub fn end_session_by_id(&self, id: &str) -> bool {
        self.write().sessions.end(id)
    }

    /// Ends every session of a user; how many there were.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn end_sessions_of(&self, email: &str) -> Result<usize, UsersError> {
        let mut state = self.write();
        let (number, _) = state.users.find(email).ok_or(UsersError::Unknown)?;
        Ok(state.sessions.end_all_of(number))
    }
}

/// What it tells others.
impl Directory {
    /// The logout token that says, as of now, that one session ended (where its id is given), or
    /// all of a subject. Whether that is so is not asked. None: the machine has no randomness.
    #[must_use]
    pub fn logout_token(
        &self,
        subject: Option<&Subject>,
        session_id: Option<&str>,
    ) -> Option<String> {
        let now = self.clock.now().unix_seconds();
        let signer = self.signer.as_ref()?;
        signer.logout_token((ISSUER, CLIENT), subject, session_id, now)
    }
}

/// What a password for nobody is compared with, so that the time tells nothing either.
const NOBODYS_PASSWORD: &str = "nobody's password";

/// In this order, as at Keycloak: a lock and a switched-off account are told whatever the
/// password, an unfinished account only to those who know it.
fn may_log_in(user: Option<&User>, password: &SecretString) -> Result<(), Refusal> {
    let known = user.map_or(NOBODYS_PASSWORD, |user| user.password.expose_secret());
    let right = bool::from(known.as_bytes().ct_eq(password.expose_secret().as_bytes()));
    match user.map(|user| user.state) {
        None => Err(Refusal::InvalidCredentials),
        Some(AccountState::Locked) => Err(Refusal::Locked),
        Some(AccountState::Disabled) => Err(Refusal::Disabled),
        Some(AccountState::Active | AccountState::Incomplete) if !right => {
            Err(Refusal::InvalidCredentials)
        }
        Some(AccountState::Incomplete) => Err(Refusal::Incomplete),
        Some(AccountState::Active) => Ok(()),
    }
}

/// Shows how much there is, and nobody's address.
impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.read();
        f.debug_struct("Directory")
            .field("users", &state.users.iter().len())
            .field("sessions", &state.sessions)
            .finish_non_exhaustive()
    }
}
