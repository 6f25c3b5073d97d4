//! The conformance suite of adapters, with the Keycloak adapter and a real Keycloak.

use iam_conformance::{AccountState, Fixture as _, logins};
use serde_json::json;

use crate::administrator::{Administrator, FAILURES_THAT_LOCK, PermissionsFrom};
use crate::another_realm::another_realm;
use crate::keycloak::Keycloak;
use crate::version::{LogoutTokens, Version};

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn adapter_passes_the_conformance_suite() {
    let keycloak = Keycloak::shared();
    let client = PermissionsFrom::Client;
    iam_conformance::all(&Administrator::new(&keycloak, client).await).await;
}

/// In a realm whose name needs percent-encoding. Its logout tokens are read if there is one for each
/// session.
#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn adapter_with_realm_roles_passes_the_conformance_suite() {
    let keycloak = another_realm(&json!({})).await;
    let realm = PermissionsFrom::Realm;
    let administrator = Administrator::new(&keycloak, realm).await;
    if Version::of_environment().logout_tokens != LogoutTokens::ForEachSession {
        return iam_conformance::all(&administrator).await;
    }
    let administrator = administrator.reading_logout_tokens().await;
    iam_conformance::all(&administrator).await;
    let received = administrator.inbox.map(|inbox| inbox.tokens().len());
    assert!(received > Some(0), "the checks of logout tokens were run");
}

/// Not the whole suite: such a realm also refuses concurrent logins of one user.
#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn locked_account_is_refused_until_it_is_unlocked() {
    let locking = json!({
        "bruteForceProtected": true,
        "failureFactor": FAILURES_THAT_LOCK,
        "quickLoginCheckMilliSeconds": 0,
    });
    let keycloak = another_realm(&locking).await;
    let realm = PermissionsFrom::Realm;
    let administrator = Administrator::new(&keycloak, realm).await;
    let states = administrator.account_states();
    assert!(states.contains(&AccountState::Locked));
    let kept = logins::inactive_account_is_refused_until_it_is_active(&administrator).await;
    assert_eq!(kept, Ok(()));
}
