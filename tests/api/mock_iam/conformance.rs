//! The conformance suite with the Keycloak adapter and the mock over the wire.

use std::sync::Arc;

use iam_adapters::clock::SystemClock;
use test_support::logout_inbox::LogoutInbox;

use super::RunningMock;
use super::administrator::administrator;

/// A mock that sends its logout tokens to this inbox.
fn running_mock(permissions_client: Option<&str>, inbox: Option<&LogoutInbox>) -> Arc<RunningMock> {
    let clock = Arc::new(SystemClock::default());
    let client = permissions_client.map(str::to_owned);
    Arc::new(RunningMock::with(
        clock,
        client,
        inbox.map(LogoutInbox::url),
    ))
}

#[tokio::test]
async fn keycloak_adapter_passes_the_conformance_suite() {
    let inbox = Arc::new(LogoutInbox::open().await);
    let running_mock = running_mock(Some("shop-api"), Some(&inbox));
    iam_conformance::all(&administrator(&running_mock, Some(&inbox))).await;
}

#[tokio::test]
async fn keycloak_adapter_with_realm_roles_passes_the_conformance_suite() {
    let running_mock = running_mock(None, None);
    iam_conformance::all(&administrator(&running_mock, None)).await;
}

/// Without a token the checks of logout tokens would do nothing.
#[tokio::test]
async fn each_ended_session_sends_one_logout_token_over_the_wire() {
    let inbox = Arc::new(LogoutInbox::open().await);
    let administrator = administrator(&running_mock(None, Some(&inbox)), Some(&inbox));
    for check in iam_conformance::CHECKS {
        if check.name == "logout_tokens_identify_every_ended_session_of_a_user" {
            (check.run)(&administrator).await.expect("conforms");
        }
    }
    assert_eq!(inbox.tokens().len(), 2);
}
