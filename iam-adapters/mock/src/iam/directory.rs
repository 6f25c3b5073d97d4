//! The in-memory IAM: its users, its sessions, and the operations of an administrator.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::Clock;
use iam_adapters::error::{IamError, Refusal};
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::scope::Permissions;
use iam_adapters::types::{Authenticated, Credentials, Introspection, Subject, UpstreamSession};
use parking_lot::RwLock;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

use super::lockout::{Failures, Lockout};
use super::sessions::{ActiveSession, Sessions};
use super::totp::TotpVerifier;
use super::users::{AccountState, User, UserNumber, Users, UsersError};
use crate::LogoutSigner;

/// The issuer of the default namespace, and the prefix of the issuers of others.
const ISSUER: &str = "urn:auth-gateway:mock";

/// The gateway's client id at the mock.
const CLIENT: &str = "auth-gateway";

/// The names of an IAM and of the gateway in logout tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `iss`: a URN in the in-process mock, a URL over the wire.
    pub issuer: String,
    /// `aud`: the gateway's client id.
    pub client: String,
}

impl Identity {
    /// The identity of a namespace other than the default one.
    #[must_use]
    pub fn of_namespace(namespace: &str) -> Self {
        Self {
            issuer: format!("{ISSUER}:{namespace}"),
            ..Self::default()
        }
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            issuer: ISSUER.to_owned(),
            client: CLIENT.to_owned(),
        }
    }
}

/// An in-memory IAM. Addresses of users are case-insensitive.
pub struct Directory {
    identity: Identity,
    clock: Arc<dyn Clock>,
    session_lifetime: Duration,
    /// None: the system had no random numbers for a key.
    signer: Option<LogoutSigner>,
    state: RwLock<State>,
}

struct State {
    users: Users,
    sessions: Sessions,
    lockout: Option<Lockout>,
}

/// Operations of users.
impl Directory {
    /// An IAM with these users and this session lifetime.
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
                lockout: None,
            }),
        }
    }

    /// Verifies the credentials and begins a session.
    ///
    /// # Errors
    ///
    /// [`IamError::Refused`]; [`IamError::Failed`] if the system has no random numbers.
    pub fn authenticate(&self, credentials: &Credentials) -> Result<Authenticated, IamError> {
        let now = self.clock.now().unix;
        let mut state = self.state.write();
        let found = state.users.find(credentials.email());
        let user = found.as_ref().map(|(_, user)| &**user);
        let totp = user.and_then(User::totp);
        let step = totp.and_then(|totp| totp.verify(credentials.otp(), now));
        let has_otp = totp.is_none() || step.is_some();
        let checked = check_login(user, credentials.password(), has_otp, now);
        if let (Some(lockout), Some((number, user))) = (state.lockout, &found) {
            match checked {
                Ok(()) => state.users.note_login(*number, true, now, lockout),
                // Keycloak does not count those of a disabled account.
                Err(Refusal::InvalidCredentials) if user.state != AccountState::Disabled => {
                    state.users.note_login(*number, false, now, lockout);
                }
                Err(_) => {}
            }
        }
        // As in Keycloak, which finds out that an account is incomplete after it has accepted the one-time password.
        let accepts_otp = matches!(checked, Ok(()) | Err(Refusal::Incomplete));
        if let (true, Some((number, _)), Some(step)) = (accepts_otp, &found, step) {
            state.users.accept_otp(*number, step);
        }
        checked.map_err(IamError::Refused)?;
        let (number, user) = found.ok_or(IamError::Refused(Refusal::InvalidCredentials))?;
        let (id, secret) = state
            .sessions
            .begin(number, now, self.session_lifetime)
            .ok_or_else(|| IamError::Failed("no random numbers".to_owned()))?;
        drop(state);
        Ok(Authenticated {
            session: UpstreamSession {
                subject: user.subject.clone(),
                id,
                secret,
            },
            expires_in: Some(self.session_lifetime),
            permissions: Some(user.permissions.clone()),
            groups: None,
            claims: iam_adapters::Claims::default(),
        })
    }

    /// The state of the session and the current permissions of its user.
    #[must_use]
    pub fn introspect(&self, session: &UpstreamSession) -> Introspection {
        match self.user_of(session) {
            Some(user) if user.state != AccountState::Disabled => Introspection::Active {
                subject: user.subject.clone(),
                permissions: user.permissions.clone(),
                groups: None,
                claims: iam_adapters::Claims::default(),
            },
            Some(_) | None => Introspection::Inactive,
        }
    }

    /// Ends the session if the secret is right. Does nothing if the session has ended.
    pub fn end_session(&self, session: &UpstreamSession) {
        let now = self.clock.now().unix;
        let mut state = self.state.write();
        if state
            .sessions
            .user_of(&session.id, &session.secret, now)
            .is_some()
        {
            state.sessions.end(&session.id, now);
        }
    }

    /// The verification keys of the logout tokens.
    ///
    /// # Errors
    ///
    /// [`IamError::Failed`] if the system had no random numbers at the start.
    pub fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let keys = self.signer.as_ref().and_then(LogoutSigner::key_set);
        let keys = keys.ok_or_else(|| IamError::Failed("no random numbers".to_owned()))?;
        VerificationKeys::parse(keys.to_string().as_bytes())
            .map_err(|error| IamError::Failed(error.to_string()))
    }

    /// The time by the IAM's clock, since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.clock.now().unix
    }

    /// The address of the session's user, also of an ended session.
    #[must_use]
    pub fn address_of(&self, session: &UpstreamSession) -> Option<String> {
        let active = self.user_of(session);
        let user = active.or_else(|| {
            let state = self.state.read();
            let mut users = state.users.iter();
            users.find(|user| user.subject == session.subject).cloned()
        });
        user.map(|user| user.email.clone())
    }

    /// What an introspection response states about the session's user besides permissions: the address and the
    /// attributes.
    #[must_use]
    pub fn members_of(&self, session: &UpstreamSession) -> Map<String, Value> {
        let user = self.user_of(session);
        let members = user.map(|user| {
            let mut members = user.attributes.clone();
            members.insert("email".to_owned(), user.email.as_str().into());
            members
        });
        members.unwrap_or_default()
    }

    /// The address and id of the session's user, if the session is active and the secret is right.
    #[must_use]
    pub fn user_of_session(&self, session: &UpstreamSession) -> Option<(String, Subject)> {
        let user = self.user_of(session)?;
        Some((user.email.clone(), user.subject.clone()))
    }

    fn user_of(&self, session: &UpstreamSession) -> Option<Arc<User>> {
        let now = self.clock.now().unix;
        let state = self.state.read();
        let number = state.sessions.user_of(&session.id, &session.secret, now)?;
        state.users.numbered(number).map(Arc::clone)
    }
}

/// Identity and logout tokens.
impl Directory {
    /// The names of the IAM and of the gateway.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A logout token for one session (if its id is given) or for all sessions of a subject, issued
    /// now. Does not check whether they ended. None if the system has no random numbers.
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

/// Compared with the password of an unknown user, so that the response time is the same.
const DUMMY_PASSWORD: &str = "the password of an unknown user";

/// The order of checks is that of Keycloak: a lock is reported with any password, a disabled account with
/// the right one, and everything else only with the one-time password that the user needs as well (`has_otp`).
fn check_login(
    user: Option<&User>,
    password: &SecretString,
    has_otp: bool,
    now: Duration,
) -> Result<(), Refusal> {
    let known = user.map_or(DUMMY_PASSWORD, |user| user.password.expose_secret());
    let right = bool::from(known.as_bytes().ct_eq(password.expose_secret().as_bytes()));
    if user.is_some_and(|user| user.failures.lock_out(now)) {
        return Err(Refusal::Locked);
    }
    match user.map(|user| user.state) {
        None => Err(Refusal::InvalidCredentials),
        Some(AccountState::Locked) => Err(Refusal::Locked),
        Some(AccountState::Active | AccountState::Disabled | AccountState::Incomplete)
            if !right =>
        {
            Err(Refusal::InvalidCredentials)
        }
        Some(AccountState::Disabled) => Err(Refusal::Disabled),
        Some(AccountState::Active | AccountState::Incomplete) if !has_otp => {
            Err(Refusal::InvalidCredentials)
        }
        Some(AccountState::Incomplete) => Err(Refusal::Incomplete),
        Some(AccountState::Active) => Ok(()),
    }
}

/// Shows counts only, no addresses.
impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.read();
        f.debug_struct("Directory")
            .field("users", &state.users.iter().len())
            .field("sessions", &state.sessions)
            .finish_non_exhaustive()
    }
}

/// A session that has neither ended nor expired, including those of a disabled account: they are
/// active again when the account is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSession {
    /// The id of the session. It cannot be used without its secret.
    pub id: String,
    /// The gateway's id of the session, if it is known.
    pub gateway_id: Option<String>,
    /// The address of its user, as created.
    pub user: String,
    /// The id of its user.
    pub subject: Subject,
    /// When its user logged in, since 1970-01-01T00:00:00Z, in whole milliseconds.
    pub began_at: Duration,
    /// When it expires, since 1970-01-01T00:00:00Z, in whole milliseconds.
    pub expires_at: Duration,
}

/// Queries of an administrator.
impl Directory {
    /// Every user, in no particular order.
    #[must_use]
    pub fn users(&self) -> Vec<Arc<User>> {
        self.state.read().users.iter().cloned().collect()
    }

    /// Every user with the number of active sessions, in no particular order. Scans the sessions once.
    #[must_use]
    pub fn users_with_sessions(&self) -> Vec<(Arc<User>, usize)> {
        let now = self.clock.now().unix;
        let state = self.state.read();
        let counts = state.sessions.active_by_user(now);
        let counted = |(number, user): (UserNumber, &Arc<User>)| {
            (
                Arc::clone(user),
                counts.get(&number).copied().unwrap_or_default(),
            )
        };
        state.users.numbers().map(counted).collect()
    }

    /// The user with this address and the number of active sessions.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn user_with_sessions(&self, email: &str) -> Result<(Arc<User>, usize), UsersError> {
        let now = self.clock.now().unix;
        let state = self.state.read();
        let (number, user) = state.users.find(email).ok_or(UsersError::Unknown)?;
        let counts = state.sessions.active_by_user(now);
        Ok((user, counts.get(&number).copied().unwrap_or_default()))
    }

    /// The active sessions, newest first, then by id.
    #[must_use]
    pub fn sessions(&self) -> Vec<LiveSession> {
        let now = self.clock.now().unix;
        self.state.read().sessions(now)
    }

    /// The gateway's id of each of the last 10,000 sessions, active or not, by the session's own id.
    #[must_use]
    pub fn gateway_session_ids(&self) -> HashMap<String, String> {
        self.state.read().sessions.gateway_ids()
    }

    /// The id of the session, active or not, that the gateway calls so.
    #[must_use]
    pub fn id_of_gateway_session(&self, gateway_id: &str) -> Option<String> {
        self.state.read().sessions.id_of(gateway_id)
    }

    /// The number of active sessions.
    #[must_use]
    pub fn active_session_count(&self) -> usize {
        let now = self.clock.now().unix;
        self.state.read().sessions.active_count(now)
    }

    /// The number of stored sessions, including expired ones.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.state.read().sessions.len()
    }
}

/// Changes of users by an administrator.
impl Directory {
    /// Adds a user.
    ///
    /// # Errors
    ///
    /// [`UsersError::Taken`]; [`UsersError::SubjectTaken`].
    pub fn create_user(&self, user: User) -> Result<(), UsersError> {
        self.state.write().users.add(user)
    }

    /// Deletes a user and ends the sessions.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn delete_user(&self, email: &str) -> Result<(), UsersError> {
        let now = self.clock.now().unix;
        let mut state = self.state.write();
        let removed = state.users.remove(email)?;
        state.sessions.end_where(now, |user| user == removed);
        Ok(())
    }

    /// Replaces all users. Sessions of a subject that both sets contain stay active; all others end.
    pub fn replace_users(&self, users: &Users) {
        let now = self.clock.now().unix;
        let mut state = self.state.write();
        let users = users.succeeding(&state.users);
        let stays = |number| users.numbered(number).is_some();
        state.sessions.end_where(now, |number| !stays(number));
        state.users = users;
    }

    /// Changes the password. Sessions stay active.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`]; [`UsersError::Invalid`] if it is empty or too long.
    pub fn set_password(&self, email: &str, password: SecretString) -> Result<(), UsersError> {
        self.state
            .write()
            .users
            .change(email)?
            .set_password(password)?;
        Ok(())
    }

    /// Sets the permissions. The next introspection returns them.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn set_permissions(&self, email: &str, permissions: Permissions) -> Result<(), UsersError> {
        self.state.write().users.change(email)?.permissions = permissions;
        Ok(())
    }

    /// Sets the attributes. The next introspection returns them.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn set_attributes(
        &self,
        email: &str,
        attributes: Map<String, Value>,
    ) -> Result<(), UsersError> {
        self.state.write().users.change(email)?.attributes = attributes;
        Ok(())
    }

    /// Requires one-time passwords of a user, or none. Sessions stay active.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn set_totp(&self, email: &str, totp: Option<TotpVerifier>) -> Result<(), UsersError> {
        self.state.write().users.change(email)?.totp = totp;
        Ok(())
    }

    /// Sets when accounts are locked out; none: never, and no account is locked out any more.
    pub fn set_lockout(&self, lockout: Option<Lockout>) {
        let mut state = self.state.write();
        state.lockout = lockout;
        if lockout.is_none() {
            state.users.forget_failures();
        }
    }

    /// When accounts are locked out.
    #[must_use]
    pub fn lockout(&self) -> Option<Lockout> {
        self.state.read().lockout
    }

    /// Sets the state of an account, and forgets its failed logins. Sessions of a disabled account are
    /// inactive until it is active again, unless they end meanwhile.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn set_state(&self, email: &str, state: AccountState) -> Result<(), UsersError> {
        let mut directory = self.state.write();
        let user = directory.users.change(email)?;
        user.state = state;
        user.failures = Failures::default();
        Ok(())
    }
}

/// Changes of sessions by an administrator.
impl Directory {
    /// Keeps the id that the gateway gave to a session.
    pub fn set_gateway_session_id(&self, id: &str, gateway_id: &str) {
        self.state.write().sessions.set_gateway_id(id, gateway_id);
    }

    /// Ends one session. Returns whether it was active.
    pub fn end_session_by_id(&self, id: &str) -> bool {
        let now = self.clock.now().unix;
        self.state.write().sessions.end(id, now)
    }

    /// Ends every session of a user. Returns how many were active.
    ///
    /// # Errors
    ///
    /// [`UsersError::Unknown`].
    pub fn end_sessions_of(&self, email: &str) -> Result<usize, UsersError> {
        let now = self.clock.now().unix;
        let mut state = self.state.write();
        let (number, _) = state.users.find(email).ok_or(UsersError::Unknown)?;
        Ok(state.sessions.end_where(now, |user| user == number))
    }

    /// Ends every session. Returns those that were active, as [`Directory::sessions`] does.
    pub fn end_all_sessions(&self) -> Vec<LiveSession> {
        let now = self.clock.now().unix;
        let mut state = self.state.write();
        let ended = state.sessions(now);
        state.sessions.end_where(now, |_| true);
        ended
    }
}

impl State {
    fn sessions(&self, now: Duration) -> Vec<LiveSession> {
        let mut gateway_ids = self.sessions.gateway_ids();
        let session_of = |session: ActiveSession| {
            let user = self.users.numbered(session.user)?;
            Some(LiveSession {
                gateway_id: gateway_ids.remove(&session.id),
                id: session.id,
                user: user.email.clone(),
                subject: user.subject.clone(),
                began_at: session.began_at,
                expires_at: session.expires_at,
            })
        };
        let mut sessions: Vec<_> = self.sessions.active(now).filter_map(session_of).collect();
        sessions.sort_unstable_by(|a, b| {
            (Reverse(a.began_at), &a.id).cmp(&(Reverse(b.began_at), &b.id))
        });
        sessions
    }
}

/// A copy of the users, including passwords and which one-time passwords were accepted, and the sessions of a
/// [`Directory`]. Opaque: it can only be restored.
#[derive(Clone)]
pub struct DirectorySnapshot {
    users: Users,
    sessions: Sessions,
}

impl Directory {
    /// Takes a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> DirectorySnapshot {
        let state = self.state.read();
        DirectorySnapshot {
            users: state.users.clone(),
            sessions: state.sessions.clone(),
        }
    }

    /// Restores users and sessions. Sessions that ended since are active again until their expiry;
    /// later ones are removed.
    pub fn restore(&self, snapshot: &DirectorySnapshot) {
        // Copy before taking the lock.
        let DirectorySnapshot { users, sessions } = snapshot.clone();
        let mut state = self.state.write();
        state.users = users;
        state.sessions = sessions;
    }

    /// Takes what belongs to no snapshot from the IAM that this one replaces: when accounts are locked out, and the
    /// gateway's ids of sessions, by which its journal is read. Call it after [`Directory::restore`].
    pub fn take_over_from(&self, before: &Self) {
        self.set_lockout(before.lockout());
        let before = before.state.read();
        self.state
            .write()
            .sessions
            .keep_gateway_ids_of(&before.sessions);
    }
}

/// Shows counts only, no addresses.
impl fmt::Debug for DirectorySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectorySnapshot")
            .field("users", &self.users.iter().len())
            .field("sessions", &self.sessions)
            .finish()
    }
}
