//! The fixture of the conformance suite for the mock and for wrappers of it.

use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::clock::SystemClock;
use iam_adapters::{Clock, IamAdapter, Permissions, Subject, UpstreamSession};
use iam_conformance::{Account, AccountState, Fixture};
use mock_iam::{Directory, Identity, Mock, MockSettings, User, Users};
use secrecy::SecretString;

/// The administrator of an empty mock, for suites that test adapters.
///
/// Its methods panic for an unknown user.
#[derive(Debug)]
pub struct MockFixture {
    directory: Arc<Directory>,
    adapter: Arc<dyn IamAdapter>,
}

impl MockFixture {
    /// An empty mock behind an adapter that wraps it.
    pub fn wrapped(adapter: impl FnOnce(Mock) -> Arc<dyn IamAdapter>) -> Self {
        Self::new(Arc::new(SystemClock::default()), adapter)
    }

    /// The same with this clock. Sessions have a lifetime of 8 hours.
    pub fn new(clock: Arc<dyn Clock>, adapter: impl FnOnce(Mock) -> Arc<dyn IamAdapter>) -> Self {
        let lifetime = MockSettings::default().session_lifetime;
        let identity = Identity::default();
        let directory = Directory::new(identity, Users::default(), lifetime, clock);
        let directory = Arc::new(directory);
        let adapter = adapter(Mock::new(Arc::clone(&directory)));
        Self::over(directory, adapter)
    }

    /// The administrator of this IAM, with an adapter of it.
    pub fn over(directory: Arc<Directory>, adapter: Arc<dyn IamAdapter>) -> Self {
        Self { directory, adapter }
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
        let (subject, id) = (Some(&user.subject), Some(session.id.as_str()));
        Vec::from_iter(self.directory.logout_token(subject, id))
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        self.directory.end_sessions_of(&user.email).expect("known");
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
