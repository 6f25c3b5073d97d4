//! The administrator of a mock that the adapter speaks to over the wire.

use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::{IamAdapter, Permissions, Subject, UpstreamSession};
use iam_conformance::{Account, AccountState, Fixture};
use mock_iam::{Directory, User};
use secrecy::SecretString;
use test_support::logout_inbox::LogoutInbox;

use super::Standing;

pub(super) struct Administrator {
    pub(super) standing: Standing,
    adapter: Arc<dyn IamAdapter>,
    inbox: Option<LogoutInbox>,
}

impl Administrator {
    pub(super) fn of(standing: Standing, inbox: Option<LogoutInbox>) -> Self {
        Self {
            adapter: Arc::new(standing.adapter()),
            standing,
            inbox,
        }
    }

    /// How many logout tokens have come over the wire.
    pub(super) fn received(&self) -> usize {
        self.inbox.as_ref().map_or(0, |inbox| inbox.tokens().len())
    }

    fn directory(&self) -> Arc<Directory> {
        Arc::clone(self.standing.world().mock.directory())
    }

    /// Tells of what ended as the control API does, and gives what came of it by the wire.
    async fn telling(&self, ended: &[(Subject, String)]) -> Vec<String> {
        let Some(inbox) = &self.inbox else {
            return Vec::new();
        };
        let before = inbox.tokens().len();
        let world = self.standing.world();
        for (subject, session) in ended {
            let token = self.directory().logout_token(Some(subject), Some(session));
            let token = token.expect("randomness");
            assert!(world.receiver.receive(&token).await, "the inbox takes all");
        }
        inbox.tokens().split_off(before)
    }
}

#[async_trait]
impl Fixture for Administrator {
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
        self.directory().create_user(user).expect("a new user");
        subject
    }

    async fn delete_user(&self, user: &Account) {
        self.directory().delete_user(&user.email).expect("known");
    }

    async fn set_password(&self, user: &Account, password: &SecretString) {
        let set = self.directory().set_password(&user.email, password.clone());
        set.expect("known");
    }

    async fn set_permissions(&self, user: &Account, permissions: &Permissions) {
        let directory = self.directory();
        let set = directory.set_permissions(&user.email, permissions.clone());
        set.expect("known");
    }

    async fn set_state(&self, user: &Account, state: AccountState) {
        let set = self.directory().set_state(&user.email, state.into());
        set.expect("known");
    }

    async fn end_session(&self, user: &Account, session: &UpstreamSession) -> Vec<String> {
        assert!(self.directory().end_session_by_id(&session.id), "alive");
        let ended = (user.subject.clone(), session.id.clone());
        self.telling(&[ended]).await
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        let directory = self.directory();
        let living = directory.sessions();
        let ended: Vec<_> = living
            .into_iter()
            .filter(|session| session.subject == user.subject)
            .map(|session| (session.subject, session.id))
            .collect();
        directory.end_sessions_of(&user.email).expect("known");
        self.telling(&ended).await
    }
}
