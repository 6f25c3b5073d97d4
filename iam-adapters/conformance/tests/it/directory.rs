//! An adapter for a directory: it verifies passwords and reads entries, and has no sessions.

use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::{
    Authenticated, Capabilities, Claims, ClientContext, Credentials, IamAdapter, IamError,
    Introspection, PermissionAge, SessionLocation, UpstreamSession,
};
use mock_iam::{AccountState, Mock};
use test_support::wrapper::Wrapper;

/// The capabilities of such an adapter.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    sessions: SessionLocation::SessionToken,
    detects_disabled: true,
    detects_deleted: true,
    permissions: PermissionAge::Current,
    back_channel_logout: false,
    one_time_password: false,
};

/// The users of a mock without its sessions, with any capabilities.
#[derive(Debug)]
pub(super) struct Directory {
    mock: Mock,
    capabilities: Capabilities,
}

impl Directory {
    pub(super) fn new(mock: Mock, capabilities: Capabilities) -> Arc<Self> {
        Arc::new(Self { mock, capabilities })
    }
}

#[async_trait]
impl Wrapper for Directory {
    fn inner(&self) -> &dyn IamAdapter {
        &self.mock
    }

    fn name(&self) -> &'static str {
        "directory"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        assert!(
            credentials.otp().is_none() || self.capabilities.one_time_password,
            "an adapter without the capability gets no one-time password"
        );
        let (email, password) = (credentials.email(), credentials.password());
        let alone = Credentials::new(email.to_owned(), password.clone()).expect("valid before");
        self.mock.authenticate(&alone, client).await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let mut users = self.mock.directory().users().into_iter();
        let entry = users.find(|user| *user.subject() == session.subject);
        let entry = entry.filter(|user| user.state() == AccountState::Active);
        // Only the mock reads claims of an entry.
        let claims = match self.mock.introspect(session).await? {
            Introspection::Active { claims, .. } => claims,
            Introspection::Inactive => Claims::NONE,
        };
        Ok(
            entry.map_or(Introspection::Inactive, |user| Introspection::Active {
                subject: user.subject().clone(),
                permissions: user.permissions().clone(),
                groups: None,
                claims,
            }),
        )
    }

    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        Ok(())
    }

    fn logout_audience(&self) -> Option<&str> {
        None
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        Err(IamError::Unreadable("a directory signs nothing".into()))
    }
}
