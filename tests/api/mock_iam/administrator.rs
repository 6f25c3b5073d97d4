//! The administrator of a mock over the wire.

use std::sync::Arc;

use test_support::logout_inbox::LogoutInbox;
use test_support::mock_fixture::MockFixture;

use super::{RunningMock, adapter};

/// Keeps the mock running. Its logout tokens are those that the inbox receives over the wire.
pub(super) fn administrator(
    running_mock: &Arc<RunningMock>,
    inbox: Option<&Arc<LogoutInbox>>,
) -> MockFixture {
    let directory = Arc::clone(running_mock.namespace().mock.directory());
    let connected = Arc::clone(running_mock);
    let fixture = MockFixture::over(directory, move |claims| {
        let mut settings = connected.settings();
        settings.client.claims = claims;
        adapter(&settings)
    });
    let (namespace, inbox) = (running_mock.namespace(), inbox.cloned());
    fixture.notifying(move |ended| {
        let (namespace, inbox) = (Arc::clone(&namespace), inbox.clone());
        async move {
            let Some(inbox) = inbox else {
                return Vec::new();
            };
            let before = inbox.tokens().len();
            for (subject, session) in ended {
                let accepted = namespace.notify_logout(&subject, &session).await;
                assert!(accepted, "the inbox takes all");
            }
            inbox.tokens().split_off(before)
        }
    })
}
