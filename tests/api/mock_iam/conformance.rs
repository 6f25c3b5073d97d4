//! The conformance suite with the Keycloak adapter and the mock over the wire.

use std::sync::Arc;

use iam_adapters::clock::SystemClock;
use test_support::logout_inbox::LogoutInbox;

use super::RunningMock;
use super::administrator::Administrator;

#[tokio::test]
async fn keycloak_adapter_passes_the_conformance_suite() {
    let inbox = LogoutInbox::open().await;
    let clock = Arc::new(SystemClock::default());
    let client = Some("shop-api".to_owned());
    let running_mock = RunningMock::with(clock, client, Some(inbox.url()));
    iam_conformance::all(&Administrator::of(running_mock, Some(inbox))).await;
}

#[tokio::test]
async fn keycloak_adapter_with_realm_roles_passes_the_conformance_suite() {
    let clock = Arc::new(SystemClock::default());
    let running_mock = RunningMock::with(clock, None, None);
    iam_conformance::all(&Administrator::of(running_mock, None)).await;
}

/// Without a token the checks of logout tokens would do nothing.
#[tokio::test]
async fn each_ended_session_sends_one_logout_token_over_the_wire() {
    let inbox = LogoutInbox::open().await;
    let clock = Arc::new(SystemClock::default());
    let running_mock = RunningMock::with(clock, None, Some(inbox.url()));
    let administrator = Administrator::of(running_mock, Some(inbox));
    for check in iam_conformance::CHECKS {
        if check.name == "logout_tokens_identify_every_ended_session_of_a_user" {
            (check.run)(&administrator).await.expect("conforms");
        }
    }
    assert_eq!(administrator.received(), 2);
}
