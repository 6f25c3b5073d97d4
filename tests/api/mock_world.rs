//! The API suite over the bundled mock, a new one for each promise.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::conformance::{Account, Fixture};
use iam_adapters::mock::{AccountState, Directory, Identity, Mock, User, Users};
use iam_adapters::{Clock, IamAdapter, Permissions, Subject, UpstreamSession};
use secrecy::SecretString;
use test_support::suite::{self, World};

const SESSION_LIFETIME: Duration = Duration::from_secs(8 * 3600);

/// The administrator of a mock.
#[derive(Debug)]
struct MockFixture {
    directory: Arc<Directory>,
    adapter: Arc<dyn IamAdapter>,
}

/// The gateways before an empty mock, all by one clock.
pub(crate) fn mock_world() -> World {
    World::new(|clock: Arc<dyn Clock>| {
        let identity = Identity::default();
        let directory = Directory::new(identity, Users::default(), SESSION_LIFETIME, clock);
        let directory = Arc::new(directory);
        let adapter = Arc::new(Mock::new(Arc::clone(&directory)));
        Arc::new(MockFixture { directory, adapter })
    })
}

macro_rules! hold_over_the_mock {
    ($($room:ident::$promise:ident,)*) => {$(
        #[tokio::test]
        async fn $promise() {
            suite::$room::$promise(&mock_world()).await;
        }
    )*};
}

suite::for_every_promise!(hold_over_the_mock);

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
