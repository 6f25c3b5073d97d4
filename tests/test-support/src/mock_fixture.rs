//! The fixture of the conformance suite for the mock and for wrappers of it.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::clock::SystemClock;
use iam_adapters::{ClaimSources, Clock, IamAdapter, Permissions, Subject, UpstreamSession};
use iam_conformance::{Account, AccountState, ClaimMembers, Fixture};
use mock_iam::{Directory, Identity, Mock, MockSettings, User, Users};
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::totp;

/// Makes an adapter whose tokens have these claims.
type Connect = Box<dyn Fn(ClaimSources) -> Arc<dyn IamAdapter> + Send + Sync>;

/// The logout tokens that the client received.
type Received = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

/// Sends a logout token for each of these sessions, which have ended.
type Notify = Box<dyn Fn(Vec<(Subject, String)>) -> Received + Send + Sync>;

/// The administrator of an empty mock, for suites that test adapters.
///
/// Its methods panic for an unknown user.
pub struct MockFixture {
    directory: Arc<Directory>,
    adapter: Arc<dyn IamAdapter>,
    connect: Connect,
    notify: Option<Notify>,
}

impl MockFixture {
    /// An empty mock behind an adapter that wraps it.
    pub fn wrapped(adapter: impl Fn(Mock) -> Arc<dyn IamAdapter> + Send + Sync + 'static) -> Self {
        Self::new(Arc::new(SystemClock::default()), adapter)
    }

    /// The same with this clock. Sessions have a lifetime of 8 hours.
    pub fn new(
        clock: Arc<dyn Clock>,
        adapter: impl Fn(Mock) -> Arc<dyn IamAdapter> + Send + Sync + 'static,
    ) -> Self {
        let lifetime = MockSettings::default().session_lifetime;
        let identity = Identity::default();
        let directory = Directory::new(identity, Users::default(), lifetime, clock);
        let directory = Arc::new(directory);
        let of = Arc::clone(&directory);
        Self::over(directory, move |claims| {
            adapter(Mock::new(Arc::clone(&of)).with_claims(claims))
        })
    }

    /// The administrator of this IAM, with adapters of it that have these claims.
    pub fn over(
        directory: Arc<Directory>,
        connect: impl Fn(ClaimSources) -> Arc<dyn IamAdapter> + Send + Sync + 'static,
    ) -> Self {
        Self {
            directory,
            adapter: connect(ClaimSources::NONE),
            connect: Box::new(connect),
            notify: None,
        }
    }

    /// Logout tokens are sent in this way, one for each session that ends.
    #[must_use]
    pub fn notifying<R>(
        self,
        notify: impl Fn(Vec<(Subject, String)>) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Vec<String>> + Send + 'static,
    {
        Self {
            notify: Some(Box::new(move |ended| Box::pin(notify(ended)))),
            ..self
        }
    }
}

#[async_trait]
impl Fixture for MockFixture {
    fn adapter(&self) -> Arc<dyn IamAdapter> {
        Arc::clone(&self.adapter)
    }

    fn account_states(&self) -> &[AccountState] {
        &[
            AccountState::Disabled,
            AccountState::Locked,
            AccountState::Incomplete,
        ]
    }

    fn adapter_with_claims(&self, claims: ClaimSources) -> Arc<dyn IamAdapter> {
        (self.connect)(claims)
    }

    fn claim_members(&self) -> ClaimMembers {
        ClaimMembers::Attributes
    }

    async fn set_attributes(&self, user: &Account, attributes: &Map<String, Value>) {
        self.directory
            .set_attributes(&user.email, attributes.clone())
            .expect("known");
    }

    async fn introspection_response(&self, session: &UpstreamSession) -> Value {
        let users = self.directory.users();
        let mut users = users.iter();
        let user = users.find(|user| *user.subject() == session.subject);
        Value::Object(user.expect("known").attributes().clone())
    }

    async fn create_user(
        &self,
        email: &str,
        password: &SecretString,
        permissions: &Permissions,
    ) -> Subject {
        let user = User::new(email, password.clone(), permissions.clone()).expect("a valid user");
        let subject = user.subject().clone();
        self.directory.create_user(user).expect("a new user");
        subject
    }

    async fn create_user_with_otp(&self, email: &str, password: &SecretString) -> Subject {
        let user = User::new(email, password.clone(), Permissions::default());
        let user = user
            .expect("a valid user")
            .with_totp(Some(totp::verifier()));
        let subject = user.subject().clone();
        self.directory.create_user(user).expect("a new user");
        subject
    }

    fn otp(&self) -> SecretString {
        totp::otp_at(self.directory.now())
    }

    async fn delete_user(&self, user: &Account) {
        self.directory.delete_user(&user.email).expect("known");
    }

    async fn set_password(&self, user: &Account, password: &SecretString) {
        self.directory
            .set_password(&user.email, password.clone())
            .expect("known");
    }

    async fn set_permissions(&self, user: &Account, permissions: &Permissions) {
        self.directory
            .set_permissions(&user.email, permissions.clone())
            .expect("known");
    }

    async fn set_state(&self, user: &Account, state: AccountState) {
        self.directory
            .set_state(&user.email, of_mock(state))
            .expect("known");
    }

    async fn end_session(&self, user: &Account, session: &UpstreamSession) -> Vec<String> {
        assert!(
            self.directory.end_session_by_id(&session.id),
            "active before"
        );
        if let Some(notify) = &self.notify {
            return notify(vec![(user.subject.clone(), session.id.clone())]).await;
        }
        let (subject, id) = (Some(&user.subject), Some(session.id.as_str()));
        Vec::from_iter(self.directory.logout_token(subject, id))
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        let sessions = self.directory.sessions().into_iter();
        let sessions = sessions.filter(|session| session.subject == user.subject);
        let ended = sessions.map(|session| (session.subject, session.id));
        let ended = ended.collect();
        self.directory.end_sessions_of(&user.email).expect("known");
        if let Some(notify) = &self.notify {
            return notify(ended).await;
        }
        Vec::from_iter(self.directory.logout_token(Some(&user.subject), None))
    }
}

const fn of_mock(state: AccountState) -> mock_iam::AccountState {
    match state {
        AccountState::Active => mock_iam::AccountState::Active,
        AccountState::Disabled => mock_iam::AccountState::Disabled,
        AccountState::Locked => mock_iam::AccountState::Locked,
        AccountState::Incomplete => mock_iam::AccountState::Incomplete,
    }
}
