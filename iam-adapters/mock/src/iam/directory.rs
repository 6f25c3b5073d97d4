//! The IAM behind the mock: users, sessions, and what an administrator does to them.

mod administration;
mod snapshot;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use iam_adapters::clock::Clock;
use iam_adapters::error::{IamError, Refusal};
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::types::{Authenticated, Credentials, Introspection, Subject, UpstreamSession};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::identity::Identity;
use super::sessions::Sessions;
use super::user::{AccountState, User};
use super::users::Users;
use crate::LogoutSigner;

pub use administration::LiveSession;
pub use snapshot::DirectorySnapshot;

/// An IAM in memory. Users are found by their address, upper and lower case being the same.
pub struct Directory {
    identity: Identity,
    clock: Arc<dyn Clock>,
    session_lifetime: Duration,
    /// None: the machine had no randomness for a key.
    signer: Option<LogoutSigner>,
    state: RwLock<State>,
}

struct State {
    users: Users,
    sessions: Sessions,
}

/// What users do.
impl Directory {
    /// An IAM with these users, whose sessions live as long as given.
    #[must_use]
    pub fn new(
        identity: Identity,
        users: Users,
        session_lifetime: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            identity,
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
            state.sessions.end(&session.id, now);
        }
    }

    /// The keys for the logout tokens.
    ///
    /// # Errors
    ///
    /// [`IamError::Failed`] where the machine had no randomness at the start.
    pub fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let keys = self.signer.as_ref().and_then(LogoutSigner::key_set);
        let keys = keys.ok_or_else(|| IamError::Failed("no randomness".to_owned()))?;
        VerificationKeys::parse(keys.to_string().as_bytes())
            .map_err(|error| IamError::Failed(error.to_string()))
    }

    /// The time by the IAM's clock, since 1970-01-01T00:00:00Z.
    pub(super) fn now(&self) -> Duration {
        self.clock.now().unix
    }

    /// The address of the user whose session it is, whether it is alive or not.
    #[must_use]
    pub fn address_of(&self, session: &UpstreamSession) -> Option<String> {
        let alive = self.user_of(session);
        let user = alive.or_else(|| {
            let state = self.read();
            let mut users = state.users.iter();
            users.find(|user| user.subject == session.subject).cloned()
        });
        user.map(|user| user.email.clone())
    }

    /// Whose session this is, while it lives and the secret is its own: the user's address and id.
    #[must_use]
    pub fn user_of_session(&self, session: &UpstreamSession) -> Option<(String, Subject)> {
        let user = self.user_of(session)?;
        Some((user.email.clone(), user.subject.clone()))
    }

    fn user_of(&self, session: &UpstreamSession) -> Option<Arc<User>> {
        let now = self.clock.now().unix;
        let state = self.read();
        let number = state.sessions.alive(&session.id, &session.secret, now)?;
        state.users.numbered(number).map(Arc::clone)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What it tells others.
impl Directory {
    /// What it calls itself, and the gateway.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

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
        let parties = (&*self.identity.issuer, &*self.identity.client);
        signer.logout_token(parties, subject.map(Subject::as_str), session_id, now)
    }
}

/// What a password for nobody is compared with, so that the time tells nothing either.
const NOBODYS_PASSWORD: &str = "nobody's password";

/// In this order, as at Keycloak: a lock is told whatever the password, all else only to those who
/// know it.
fn may_log_in(user: Option<&User>, password: &SecretString) -> Result<(), Refusal> {
    let known = user.map_or(NOBODYS_PASSWORD, |user| user.password.expose_secret());
    let right = bool::from(known.as_bytes().ct_eq(password.expose_secret().as_bytes()));
    match user.map(|user| user.state) {
        None => Err(Refusal::InvalidCredentials),
        Some(AccountState::Locked) => Err(Refusal::Locked),
        Some(AccountState::Active | AccountState::Disabled | AccountState::Incomplete)
            if !right =>
        {
            Err(Refusal::InvalidCredentials)
        }
        Some(AccountState::Disabled) => Err(Refusal::Disabled),
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
