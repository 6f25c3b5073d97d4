//! The promises of the adapter contract, held by the Keycloak adapter over the mock.

use std::sync::Arc;

use iam_adapters::clock::SystemClock;
use test_support::logout_inbox::LogoutInbox;

use super::Standing;
use super::administrator::Administrator;

#[tokio::test]
async fn the_keycloak_adapter_keeps_every_promise() {
    let inbox = LogoutInbox::open().await;
    let clock = Arc::new(SystemClock::default());
    let client = Some("shop-api".to_owned());
    let standing = Standing::with(clock, client, Some(inbox.url()));
    iam_conformance::all(&Administrator::of(standing, Some(inbox))).await;
}

#[tokio::test]
async fn with_realm_roles_as_permissions_the_keycloak_adapter_keeps_every_promise() {
    let clock = Arc::new(SystemClock::default());
    let standing = Standing::with(clock, None, None);
    iam_conformance::all(&Administrator::of(standing, None)).await;
}

/// Otherwise the promises about them would be held by their absence.
#[tokio::test]
async fn each_session_that_ends_is_told_by_one_logout_token_over_the_wire() {
    let inbox = LogoutInbox::open().await;
    let clock = Arc::new(SystemClock::default());
    let standing = Standing::with(clock, None, Some(inbox.url()));
    let administrator = Administrator::of(standing, Some(inbox));
    for promise in iam_conformance::PROMISES {
        if promise.name == "logout_tokens_name_every_session_of_a_user_logged_out_everywhere" {
            (promise.hold)(&administrator).await.expect("kept");
        }
    }
    assert_eq!(administrator.received(), 2);
}
