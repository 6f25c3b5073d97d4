//! The mock before the conformance suite; wrappers of it too.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;

use super::{AccountState, Directory, Identity, Mock, User, Users};
use crate::adapter::IamAdapter;
use crate::clock::SystemClock;
use crate::conformance::{Account, Fixture};
use crate::scope::Permissions;
use crate::types::{Subject, UpstreamSession};

#[derive(Debug)]
pub(crate) struct MockFixture {
    directory: Arc<Directory>,
    adapter: Arc<dyn IamAdapter>,
}

impl MockFixture {
    /// An empty mock, seen through the adapter that is made of it.
    pub(crate) fn seen_through<A: IamAdapter>(adapter: impl FnOnce(Mock) -> A) -> Self {
        let clock = Arc::new(SystemClock::default());
        let lifetime = Duration::from_secs(3600);
        let identity = Identity::default();
        let directory = Directory::new(identity, Users::default(), lifetime, clock);
        let directory = Arc::new(directory);
        let adapter = Arc::new(adapter(Mock::new(Arc::clone(&directory))));
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
        let user = User::new(email, password.clone(), permissions.clone()).expect("a fair user");
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
        self.directory.set_state(&user.email, state).expect("known");
    }

    async fn end_session(&self, user: &Account, session: &UpstreamSession) -> Vec<String> {
        assert!(
            self.directory.end_session_by_id(&session.id),
            "alive before"
        );
        let (subject, id) = (Some(&user.subject), Some(session.id.as_str()));
        Vec::from_iter(self.directory.logout_token(subject, id))
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        self.directory.end_sessions_of(&user.email).expect("known");
        Vec::from_iter(self.directory.logout_token(Some(&user.subject), None))
    }
}
