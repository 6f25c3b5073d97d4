//! The administrator of a mock over the wire.

use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::keycloak::KeycloakSettings;
use iam_adapters::{ClaimSources, IamAdapter, Permissions, Subject, UpstreamSession};
use iam_conformance::{Account, AccountState, ClaimMembers, Fixture};
use mock_iam::Directory;
use secrecy::SecretString;
use serde_json::{Map, Value};
use test_support::logout_inbox::LogoutInbox;
use test_support::mock_fixture::MockFixture;

use super::{RunningMock, adapter};

pub(super) struct Administrator {
    pub(super) running_mock: RunningMock,
    fixture: MockFixture,
    inbox: Option<LogoutInbox>,
}

impl Administrator {
    pub(super) fn of(running_mock: RunningMock, inbox: Option<LogoutInbox>) -> Self {
        let settings = running_mock.settings();
        let connect = move |claims| -> Arc<dyn IamAdapter> {
            Arc::new(adapter(&KeycloakSettings {
                claims,
                ..settings.clone()
            }))
        };
        let directory = Arc::clone(running_mock.namespace().mock.directory());
        Self {
            fixture: MockFixture::over(directory, connect),
            running_mock,
            inbox,
        }
    }

    /// The number of logout tokens received over the wire.
    pub(super) fn received(&self) -> usize {
        self.inbox.as_ref().map_or(0, |inbox| inbox.tokens().len())
    }

    fn directory(&self) -> Arc<Directory> {
        Arc::clone(self.running_mock.namespace().mock.directory())
    }

    /// Sends logout tokens as the control API does, and returns those received over the wire.
    async fn notify(&self, ended: &[(Subject, String)]) -> Vec<String> {
        let Some(inbox) = &self.inbox else {
            return Vec::new();
        };
        let before = inbox.tokens().len();
        let namespace = self.running_mock.namespace();
        for (subject, session) in ended {
            let accepted = namespace.notify_logout(subject, session).await;
            assert!(accepted, "the inbox takes all");
        }
        inbox.tokens().split_off(before)
    }
}

#[async_trait]
impl Fixture for Administrator {
    fn adapter(&self) -> Arc<dyn IamAdapter> {
        self.fixture.adapter()
    }

    fn account_states(&self) -> &[AccountState] {
        self.fixture.account_states()
    }

    fn adapter_with_claims(&self, claims: ClaimSources) -> Arc<dyn IamAdapter> {
        self.fixture.adapter_with_claims(claims)
    }

    fn claim_members(&self) -> ClaimMembers {
        self.fixture.claim_members()
    }

    async fn set_attributes(&self, user: &Account, attributes: &Map<String, Value>) {
        self.fixture.set_attributes(user, attributes).await;
    }

    async fn introspection_response(&self, session: &UpstreamSession) -> Value {
        self.fixture.introspection_response(session).await
    }

    async fn create_user(
        &self,
        email: &str,
        password: &SecretString,
        permissions: &Permissions,
    ) -> Subject {
        self.fixture.create_user(email, password, permissions).await
    }

    async fn create_user_with_otp(&self, email: &str, password: &SecretString) -> Subject {
        self.fixture.create_user_with_otp(email, password).await
    }

    fn otp(&self) -> SecretString {
        self.fixture.otp()
    }

    async fn delete_user(&self, user: &Account) {
        self.fixture.delete_user(user).await;
    }

    async fn set_password(&self, user: &Account, password: &SecretString) {
        self.fixture.set_password(user, password).await;
    }

    async fn set_permissions(&self, user: &Account, permissions: &Permissions) {
        self.fixture.set_permissions(user, permissions).await;
    }

    async fn set_state(&self, user: &Account, state: AccountState) {
        self.fixture.set_state(user, state).await;
    }

    async fn end_session(&self, user: &Account, session: &UpstreamSession) -> Vec<String> {
        assert!(self.directory().end_session_by_id(&session.id), "active");
        let ended = (user.subject.clone(), session.id.clone());
        self.notify(&[ended]).await
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        let directory = self.directory();
        let active_sessions = directory.sessions();
        let ended: Vec<_> = active_sessions
            .into_iter()
            .filter(|session| session.subject == user.subject)
            .map(|session| (session.subject, session.id))
            .collect();
        directory.end_sessions_of(&user.email).expect("known");
        self.notify(&ended).await
    }
}
